//! Tokens of the text form, and expressions.

use crate::error::{Error, Result, err};
use crate::sym::Expr;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// Letters, digits, `_`, `.`, beginning with a letter or `_`.
    Word(String),
    /// A number without its sign.
    Number(u64),
    /// A string in quotes.
    Text(String),
    /// `->` and single characters.
    Sign(&'static str),
    End,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(w) => write!(f, "'{w}'"),
            Self::Number(n) => write!(f, "'{n}'"),
            Self::Text(t) => write!(f, "{t:?}"),
            Self::Sign(s) => write!(f, "'{s}'"),
            Self::End => f.write_str("the end"),
        }
    }
}

pub(super) fn is_word(s: &str) -> bool {
    let mut chars = s.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

const SIGNS: [&str; 18] =
    ["->", "{", "}", "(", ")", "[", "]", "<", ">", ",", ":", "=", "+", "-", "*", "@", "%", ";"];

/// A cursor over the tokens of a text; `;` and `//` begin comments that end with the line.
pub(super) struct Lexer {
    tokens: Vec<(Token, u32, u32)>,
    at: usize,
    depth: u32,
}

/// Parentheses within each other, at most: the parser recurses.
const MAX_DEPTH: u32 = 100;

impl Lexer {
    pub fn new(text: &str) -> Result<Self> {
        let mut tokens = Vec::new();
        for (line, content) in (1u32..).zip(text.lines()) {
            let mut rest = content;
            loop {
                rest = rest.trim_start();
                let column = (content.len() - rest.len() + 1) as u32;
                if rest.is_empty() || rest.starts_with(';') || rest.starts_with("//") {
                    break;
                }
                let (token, used) = next_token(rest).map_err(|e| at_line(e, line, column))?;
                tokens.push((token, line, column));
                rest = &rest[used..];
            }
        }
        let last = text.lines().count().max(1) as u32;
        tokens.push((Token::End, last, 1));
        Ok(Self { tokens, at: 0, depth: 0 })
    }

    pub fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    pub fn next(&mut self) -> Token {
        let token = self.tokens[self.at].0.clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// An error at the next token.
    pub fn error(&self, what: impl std::fmt::Display) -> Error {
        let (token, line, column) = &self.tokens[self.at];
        at_line(err!(Parse, "expected {what}, found {token}"), *line, *column)
            .next("docs/plan.md has the grammar; `strata translate --plan-to-text` prints a valid plan")
    }

    pub fn accept(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(s) if *s == sign);
        if found {
            self.next();
        }
        found
    }

    pub fn expect(&mut self, sign: &str) -> Result<()> {
        if self.accept(sign) { Ok(()) } else { Err(self.error(format_args!("'{sign}'"))) }
    }

    pub fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(w) if w == word);
        if found {
            self.next();
        }
        found
    }

    pub fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.accept_word(word) { Ok(()) } else { Err(self.error(format_args!("'{word}'"))) }
    }

    pub fn word(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Token::Word(w) => {
                let w = w.clone();
                self.next();
                Ok(w)
            }
            _ => Err(self.error(what)),
        }
    }

    pub fn text(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Token::Text(t) => {
                let t = t.clone();
                self.next();
                Ok(t)
            }
            _ => Err(self.error(what)),
        }
    }

    /// `sigil` and then a word or a string.
    pub fn name(&mut self, sigil: &str) -> Result<String> {
        self.expect(sigil)?;
        match self.peek() {
            Token::Text(_) => self.text("a name"),
            _ => self.word("a name"),
        }
    }

    /// A word of a letter and a number: `b12`.
    pub fn numbered(&mut self, letter: char, what: &str) -> Result<u32> {
        let n = match self.peek() {
            Token::Word(w) => w.strip_prefix(letter).and_then(|n| n.parse().ok()),
            _ => None,
        };
        match n {
            Some(n) => {
                self.next();
                Ok(n)
            }
            None => Err(self.error(what)),
        }
    }

    pub fn unsigned<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T> {
        match self.peek() {
            &Token::Number(n) => match T::try_from(n) {
                Ok(v) => {
                    self.next();
                    Ok(v)
                }
                Err(_) => Err(self.error(format_args!("a smaller {what}"))),
            },
            _ => Err(self.error(what)),
        }
    }

    pub fn integer(&mut self, what: &str) -> Result<i64> {
        let negative = self.accept("-");
        let limit = i64::MAX as u64 + negative as u64;
        match self.peek() {
            &Token::Number(n) if n <= limit => {
                self.next();
                Ok(if negative { (n as i64).wrapping_neg() } else { n as i64 })
            }
            _ => Err(self.error(what)),
        }
    }

    /// Items between brackets, separated by commas.
    pub fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect(open)?;
        let mut out = Vec::new();
        if self.accept(close) {
            return Ok(out);
        }
        loop {
            out.push(item(self)?);
            if self.accept(close) {
                return Ok(out);
            }
            self.expect(",")?;
        }
    }

    /// A sum of products.
    pub fn expr(&mut self) -> Result<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("fewer parentheses within each other"));
        }
        // The sign of a number is part of it (`-1 floordiv s0`); before anything else it is the product's.
        let literal = matches!(self.tokens.get(self.at + 1), Some((Token::Number(_), ..)));
        let mut sum = if !literal && self.accept("-") { -self.product()? } else { self.product()? };
        loop {
            if self.accept("+") {
                sum = sum + self.product()?;
            } else if self.accept("-") {
                sum = sum - self.product()?;
            } else {
                self.depth -= 1;
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.factor()?;
        loop {
            if self.accept("*") {
                left = left * self.factor()?;
            } else if self.accept_word("floordiv") {
                left = left.floor_div(&self.factor()?);
            } else if self.accept_word("mod") {
                left = left.modulo(&self.factor()?);
            } else {
                return Ok(left);
            }
        }
    }

    fn factor(&mut self) -> Result<Expr> {
        match self.peek().clone() {
            // The smallest number has no positive counterpart; wrapping brings it back under its sign.
            Token::Number(n) if n <= 1 << 63 => {
                self.next();
                Ok(Expr::from(n as i64))
            }
            Token::Sign("-") => {
                self.next();
                Ok(-self.factor()?)
            }
            Token::Sign("(") => {
                self.next();
                let e = self.expr()?;
                self.expect(")")?;
                Ok(e)
            }
            Token::Word(w) if w == "min" || w == "max" => {
                self.next();
                self.expect("(")?;
                let a = self.expr()?;
                self.expect(",")?;
                let b = self.expr()?;
                self.expect(")")?;
                Ok(if w == "min" { Expr::minimum(&a, &b) } else { Expr::maximum(&a, &b) })
            }
            _ => Ok(Expr::sym(self.numbered('s', "a symbol such as s0, a number, min, max or '('")?)),
        }
    }
}

fn at_line(e: Error, line: u32, column: u32) -> Error {
    e.at(format_args!("line {line}, column {column}"))
}

fn next_token(s: &str) -> Result<(Token, usize)> {
    let first = s.chars().next().unwrap_or(' ');
    if first.is_ascii_alphabetic() || first == '_' {
        let end = s.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(s.len());
        return Ok((Token::Word(s[..end].to_owned()), end));
    }
    if first.is_ascii_digit() {
        let end = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
        let n =
            s[..end].parse().map_err(|_| err!(Parse, "the number {} does not fit in 64 bits", &s[..end]))?;
        return Ok((Token::Number(n), end));
    }
    if first == '"' {
        let mut escaped = false;
        for (i, c) in s.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    let text = serde_json::from_str(&s[..=i])
                        .map_err(|e| err!(Parse, "the string {} is malformed: {e}", &s[..=i]))?;
                    return Ok((Token::Text(text), i + 1));
                }
                _ => {}
            }
        }
        return Err(err!(Parse, "the string is not closed on its line"));
    }
    match SIGNS.into_iter().find(|sign| s.starts_with(sign)) {
        Some(sign) => Ok((Token::Sign(sign), sign.len())),
        None => Err(err!(Parse, "unexpected character {first:?}")),
    }
}

impl FromStr for Expr {
    type Err = Error;

    /// Parses what [`Display`](std::fmt::Display) prints.
    fn from_str(s: &str) -> Result<Self> {
        let mut lexer = Lexer::new(s)?;
        let e = lexer.expr()?;
        if *lexer.peek() != Token::End {
            return Err(lexer.error("the end of the expression"));
        }
        Ok(e)
    }
}
