//! Lists of passes, phases and ops.

use super::Args;
use serde_json::{Value, json};
use strata_compiler::driver::pass::Pass;
use strata_compiler::driver::registry::PASSES;
use strata_compiler::driver::{phase, test_passes, upstream};
use strata_compiler::target::Target;

/// Which passes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Strata's own.
    Own,
    /// Those of MLIR that pipelines may name.
    Upstream,
    /// Both, and those of the driver's own tests.
    All,
    /// What MLIR itself says of its passes.
    #[value(hide = true)]
    Registered,
}

/// Prints the lists that were asked for.
pub fn print(args: &Args) -> Result<bool, String> {
    let mut objects = serde_json::Map::new();
    if let Some(which) = args.list_passes {
        if which == Which::Registered {
            strata_dialects::tool::print_registered_passes();
            return Ok(true);
        }
        let value = passes(which, args.json);
        objects.insert("passes".into(), value);
    }
    if args.list_phases {
        let target = args.program.target.clone().unwrap_or_else(Target::native);
        if !args.json {
            for p in phase::phases(&target) {
                println!("{:<10}  {}", p.name, p.summary);
                if !p.pipeline.is_empty() {
                    println!("{:<10}  from the one before: {}", "", p.pipeline);
                }
            }
        }
        let phases = phase::phases(&target);
        let list =
            phases.iter().map(|p| json!({"name": p.name, "summary": p.summary, "pipeline": p.pipeline}));
        objects.insert("phases".into(), list.collect());
    }
    if args.list_ops {
        if args.markdown {
            print!("{}", strata_compiler::driver::reference::graph_page());
            return Ok(true);
        }
        let mut list = Vec::new();
        for (theme, rows) in strata_dialects::ops::THEMES {
            for row in *rows {
                if !args.json {
                    println!("{:<22}  {:<12}  {}", row.name, theme, row.semantics);
                }
                let constraints: Vec<_> =
                    row.constraints.iter().map(|c| json!({"label": c.0, "text": c.1})).collect();
                list.push(json!({"name": row.name, "theme": theme, "semantics": row.semantics, "stablehlo": row.stablehlo, "aten": row.aten, "constraints": constraints}));
            }
        }
        objects.insert("ops".into(), Value::Array(list));
    }
    if args.json {
        println!("{}", Value::Object(objects));
    }
    Ok(true)
}

fn passes(which: Which, json: bool) -> Value {
    let mut list = Vec::new();
    let mut own = |pass: &Pass, origin: &str| {
        if !json {
            println!("{:<24}  {:?} -> {:?}: {}", pass.name, pass.from, pass.to, pass.summary);
            for o in pass.options {
                println!("{:<24}    {}={}  {}", "", o.name, o.default, o.help);
            }
        }
        let options: Vec<_> = pass
            .options
            .iter()
            .map(|o| json!({"name": o.name, "default": o.default, "help": o.help}))
            .collect();
        list.push(json!({
            "name": pass.name, "origin": origin, "summary": pass.summary, "from": format!("{:?}", pass.from), "to": format!("{:?}", pass.to),
            "exact": pass.exact, "options": options,
        }));
    };
    if which != Which::Upstream {
        PASSES.iter().for_each(|p| own(p, "strata"));
    }
    if which == Which::All {
        test_passes::all().for_each(|p| own(p, "test"));
    }
    if which != Which::Own {
        for pass in upstream::all() {
            if !json {
                println!(
                    "{:<24}  upstream{}",
                    pass.name,
                    if pass.options.is_empty() {
                        String::new()
                    } else {
                        format!(": {}", pass.options.join(" "))
                    }
                );
            }
            list.push(json!({"name": pass.name, "origin": "mlir", "options": pass.options}));
        }
    }
    Value::Array(list)
}
