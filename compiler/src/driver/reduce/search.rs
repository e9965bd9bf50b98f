//! The search: moves are tried until none makes the program smaller.

use crate::driver::diagnostics::Collector;
use crate::driver::reduce::edit::Idle;
use crate::driver::reduce::moves::{Edit, MOVES, Move, Order, Places};
use crate::driver::reduce::size::Size;
use crate::driver::run::clone;
use melior::Context;
use melior::ir::Module;
use melior::ir::operation::OperationLike;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// When to stop before the end.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Programs to ask the oracle about.
    pub candidates: usize,
    /// Time. Where it ends a reduction, the result depends on the machine.
    pub time: Option<Duration>,
}

/// What a move has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Programs that the oracle was asked about.
    pub tried: usize,
    /// Programs that were kept.
    pub kept: usize,
}

/// Where a reduction is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The move whose program was kept.
    pub step: &'static str,
    /// The smallest program so far.
    pub text: &'a str,
    /// Its size.
    pub size: Size,
    /// Programs that the oracle was asked about.
    pub tried: usize,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Reduced {
    /// The smallest program.
    pub text: String,
    /// The size at the beginning.
    pub before: Size,
    /// Its size.
    pub after: Size,
    /// Programs that the oracle was asked about.
    pub tried: usize,
    /// By move, in the order of the table; without those that never had a place.
    pub moves: Vec<(&'static str, Count)>,
    /// Whether a limit ended it.
    pub limited: bool,
}

/// Reduces a program that `interesting` holds for. `kept` is told every smaller program.
pub fn reduce(
    program: &str,
    limits: Limits,
    interesting: &mut dyn FnMut(&str) -> Result<bool, String>,
    kept: &mut dyn FnMut(Progress<'_>),
) -> Result<Reduced, String> {
    let context = strata_dialects::context();
    let collector = Collector::new(&context);
    let Some(module) = parse(&context, program) else {
        let why = collector.take().first().map_or(String::new(), |d| format!(": {}", d.message));
        return Err(format!("the program cannot be parsed{why}"));
    };
    let text = module.as_operation().to_string();
    if !interesting(&text)? {
        return Err("the program does not show the fault once it is printed anew".to_owned());
    }
    let size = Size::of(&module, &text);
    let mut search = Search {
        context: &context,
        collector: &collector,
        module,
        text,
        size,
        limits,
        begun: Instant::now(),
        asked: BTreeSet::new(),
        tried: 0,
        counts: BTreeMap::new(),
        interesting,
        kept,
    };
    loop {
        let before = search.size;
        for one in MOVES {
            search.exhaust(one)?;
        }
        if search.size == before || search.limited() {
            break;
        }
    }
    let moves = MOVES.iter().filter_map(|m| Some((m.name, *search.counts.get(m.name)?))).collect();
    Ok(Reduced {
        before: size,
        after: search.size,
        tried: search.tried,
        moves,
        limited: search.limited(),
        text: search.text,
    })
}

fn parse<'c>(context: &'c Context, text: &str) -> Option<Module<'c>> {
    strata_dialects::tool::parse_module(context, text.as_bytes(), "program")
}

struct Search<'c, 's> {
    context: &'c Context,
    collector: &'s Collector<'c>,
    module: Module<'c>,
    text: String,
    size: Size,
    limits: Limits,
    begun: Instant,
    /// Hashes of the programs that the oracle was asked about: none of them is smaller and interesting.
    asked: BTreeSet<[u8; 32]>,
    tried: usize,
    counts: BTreeMap<&'static str, Count>,
    interesting: &'s mut dyn FnMut(&str) -> Result<bool, String>,
    kept: &'s mut dyn FnMut(Progress<'_>),
}

impl<'c> Search<'c, '_> {
    fn limited(&self) -> bool {
        self.tried >= self.limits.candidates || self.limits.time.is_some_and(|t| self.begun.elapsed() >= t)
    }

    /// Tries a move at all its places.
    fn exhaust(&mut self, one: &'static Move) -> Result<(), String> {
        match one.order {
            Order::Single => self.one_by_one(one),
            Order::Halves => self.in_halves(one),
        }
    }

    fn one_by_one(&mut self, one: &'static Move) -> Result<(), String> {
        let mut at = 0;
        while at < self.places(one) && !self.limited() {
            // What is kept may have brought a new place here.
            if !self.attempt(one, at..at + 1)? {
                at += 1;
            }
        }
        Ok(())
    }

    /// From the last places to the first: the effects of an op are behind it, so the first half is more often enough.
    fn in_halves(&mut self, one: &'static Move) -> Result<(), String> {
        let mut places = self.places(one);
        let mut length = places;
        while length > 0 && places > 0 {
            let mut end = places;
            while end > 0 && !self.limited() {
                let start = end.saturating_sub(length);
                end = start;
                if self.attempt(one, start..start + length)? {
                    places = self.places(one);
                    end = end.min(places);
                }
            }
            length = length.min(places) / 2;
        }
        Ok(())
    }

    /// How many places a move has in the program.
    fn places(&self, one: &Move) -> usize {
        let mut places = Places::new(0..0);
        match one.edit {
            Edit::Module(edit) => edit(self.context, &clone(&self.module), &mut places),
            Edit::Text(edit) => drop(edit(&self.text, &mut places)),
        }
        places.met()
    }

    /// The program with the move made at some places, if it is valid.
    fn candidate(&self, one: &Move, chosen: std::ops::Range<usize>) -> Option<(Module<'c>, String)> {
        let mut places = Places::new(chosen);
        let module = match one.edit {
            Edit::Module(edit) => {
                let module = clone(&self.module);
                let idle = Idle::of(&module);
                edit(self.context, &module, &mut places);
                idle.sweep(self.context, &module);
                module.as_operation().verify().then_some(module)
            }
            Edit::Text(edit) => edit(&self.text, &mut places).and_then(|text| parse(self.context, &text)),
        };
        // What the verifier says of candidates is no news.
        self.collector.take();
        let module = module?;
        let text = module.as_operation().to_string();
        Some((module, text))
    }

    /// Makes a move at some places; whether the result is smaller and still shows the fault, and so takes the program's place.
    fn attempt(&mut self, one: &'static Move, chosen: std::ops::Range<usize>) -> Result<bool, String> {
        let Some((module, text)) = self.candidate(one, chosen) else { return Ok(false) };
        let size = Size::of(&module, &text);
        if size >= self.size || !self.asked.insert(*blake3::hash(text.as_bytes()).as_bytes()) {
            return Ok(false);
        }
        self.tried += 1;
        let holds = (self.interesting)(&text)?;
        let count = self.counts.entry(one.name).or_default();
        count.tried += 1;
        if holds {
            count.kept += 1;
            (self.module, self.text, self.size) = (module, text, size);
            (self.kept)(Progress { step: one.name, text: &self.text, size, tried: self.tried });
        }
        Ok(holds)
    }
}
