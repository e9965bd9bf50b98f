use super::*;
use proptest::prelude::*;
use proptest::sample::select;

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        (0..4u32).prop_map(Expr::sym),
        (-300..300i64).prop_map(Expr::from),
        Just(Expr::from(i64::MIN))
    ];
    leaf.prop_recursive(4, 16, 2, |e| {
        (e.clone(), e, 0..7usize).prop_map(|(a, b, op)| match op {
            0 => a + b,
            1 => a - b,
            2 => a * b,
            3 => a.floor_div(&b),
            4 => a.modulo(&b),
            5 => Expr::minimum(&a, &b),
            _ => Expr::maximum(&a, &b),
        })
    })
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z_][a-z0-9_.]{0,8}", any::<String>()]
}

fn buffer_id() -> impl Strategy<Value = BufferId> {
    (0..20u32).prop_map(BufferId)
}

fn list<T: std::fmt::Debug>(item: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(item, 0..4)
}

fn symbol() -> impl Strategy<Value = PlanSymbol> {
    let binding = prop_oneof![
        any::<(u32, u32)>().prop_map(|(input, dim)| Binding::InputDim { input, dim }),
        any::<(u32, u32)>().prop_map(|(input, dim)| Binding::InputStride { input, dim }),
        any::<u32>().prop_map(Binding::Scalar),
        expr().prop_map(Binding::Defined),
    ];
    let max = prop_oneof![Just(i64::MAX), any::<i64>()];
    (text(), any::<i64>(), max, any::<i64>(), any::<Option<i64>>(), binding).prop_map(
        |(name, min, max, divisor, hint, binding)| PlanSymbol {
            info: Symbol { name, min, max, divisor, hint },
            binding,
        },
    )
}

fn buffer() -> impl Strategy<Value = Buffer> {
    let place = prop_oneof![
        any::<u32>().prop_map(Place::Input),
        any::<u32>().prop_map(Place::Output),
        expr().prop_map(Place::Arena),
        Just(Place::Block),
        any::<u64>().prop_map(|offset| Place::Constant { offset }),
        (buffer_id(), expr()).prop_map(|(of, offset)| Place::Alias { of, offset }),
    ];
    (select(DType::ALL.to_vec()), list(expr()), prop::option::of(list(expr())), place)
        .prop_map(|(dtype, shape, strides, place)| Buffer { dtype, shape, strides, place })
}

fn matrix() -> impl Strategy<Value = Matrix> {
    (buffer_id(), expr(), expr(), expr()).prop_map(|(buffer, batch_stride, row_stride, col_stride)| Matrix {
        buffer,
        batch_stride,
        row_stride,
        col_stride,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let buffers = || list(buffer_id());
    let launch = (any::<u32>(), buffers(), buffers(), list(expr()), list(expr()), text()).prop_map(
        |(kernel, operands, results, symbols, grid, location)| Step::Launch {
            kernel,
            operands,
            results,
            symbols,
            grid,
            location,
        },
    );
    let epilogue = select(vec![Epilogue::None, Epilogue::Relu, Epilogue::GeluTanh]);
    let sizes = (expr(), expr(), expr(), expr());
    let product = (matrix(), matrix(), matrix(), prop::option::of(buffer_id()), epilogue, sizes, text())
        .prop_map(|(lhs, rhs, out, bias, epilogue, (m, n, k, batch), location)| {
            Step::Product(Product { lhs, rhs, out, bias, epilogue, m, n, k, batch, location })
        });
    let numbers = (list(any::<i64>()), list(any::<(i64, i64)>()), list(any::<i64>()), any::<i64>());
    let convolution = (buffer_id(), buffer_id(), buffer_id(), numbers, text()).prop_map(
        |(input, weight, out, (stride, padding, dilation, groups), location)| {
            Step::Convolution(Convolution { input, weight, out, stride, padding, dilation, groups, location })
        },
    );
    let copy = (buffer_id(), buffer_id()).prop_map(|(from, to)| Step::Copy { from, to });
    let host = ([text(), text(), text(), text()], list(buffer_id()), list(expr()), list(buffer_id()))
        .prop_map(|([name, payload, reason, location], inputs, symbols, outputs)| {
            Step::HostCall(HostCall { name, payload, inputs, symbols, outputs, reason, location })
        });
    prop_oneof![launch, product, convolution, copy, host]
}

fn plan() -> impl Strategy<Value = Plan> {
    let check = (text(), text()).prop_map(|(message, location)| Check { message, location });
    let kernel = (text(), any::<u32>(), text(), any::<u32>(), any::<u32>(), list(check)).prop_map(
        |(name, image, summary, block, shared_bytes, checks)| Kernel {
            name,
            image,
            summary,
            block,
            shared_bytes,
            checks,
        },
    );
    let ends = || list((text(), buffer_id()));
    let device = select(vec![DeviceKind::Cpu, DeviceKind::Cuda]);
    (text(), device, list(symbol()), ends(), ends(), list(buffer()), list(kernel), expr(), list(step()))
        .prop_map(|(name, device, symbols, inputs, outputs, buffers, kernels, arena, steps)| Plan {
            name,
            device,
            symbols,
            inputs: inputs.into_iter().map(|(name, buffer)| Input { name, buffer }).collect(),
            outputs: outputs.into_iter().map(|(name, buffer)| Output { name, buffer }).collect(),
            buffers,
            kernels,
            arena,
            steps,
        })
}

proptest! {
    #[test]
    fn expressions_are_one_to_one(e in expr()) {
        let text = e.to_string();
        let back: Result<Expr, _> = text.parse();
        prop_assert_eq!(back.map(|b| b.to_string()), Ok(text.clone()));
        prop_assert_eq!(text.parse::<Expr>(), Ok(e));
    }

    #[test]
    fn text_is_one_to_one(p in plan()) {
        let text = p.to_string();
        let back = parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(back.to_string(), text);
        prop_assert_eq!(back, p);
    }

    #[test]
    fn verification_never_panics(p in plan()) {
        let _ = super::super::verify::verify(&p);
    }

    #[test]
    fn damaged_text_never_panics(at in 0..700usize, c in any::<char>(), cut in 0..700usize) {
        let mut text = crate::testing::MLP.to_owned();
        text.replace_range(at.min(text.len() - 1)..at.min(text.len() - 1) + 1, &c.to_string());
        let _ = parse(&text);
        let _ = parse(&crate::testing::MLP[..cut.min(crate::testing::MLP.len())]);
    }
}

#[test]
fn the_example_prints_as_it_is_written() {
    assert_eq!(parse(crate::testing::MLP).unwrap().to_string(), crate::testing::MLP);
    let page = include_str!("../../../docs/plan.md");
    assert!(
        page.contains(crate::testing::MLP),
        "docs/plan.md shows another example than runtime/src/testing/mlp.plan"
    );
}

#[test]
fn errors_have_line_and_column() {
    let cases = [
        ("plan @a on tpu {", "expected a device, 'cpu' or 'cuda', found 'tpu'", "line 1, column 12"),
        (
            "plan @a on cpu {\n  buffer b1 : f32[]",
            "expected b0: definitions are numbered in order",
            "line 2, column 10",
        ),
        (
            "plan @a on cpu {\n  buffer b0 : f33[]",
            "expected an element type, one of f64",
            "line 2, column 15",
        ),
        ("plan @a on cpu { loop }", "expected one of symbol, input", "line 1, column 18"),
        ("plan @a on cpu { arena s0 * bytes }", "expected a symbol such as s0", "line 1, column 29"),
        ("plan @a on cpu { input %\"x", "not closed", "line 1, column 25"),
        ("plan @a on cpu { arena 99999999999999999999 bytes }", "does not fit", "line 1, column 24"),
        ("plan @a on cpu {} plan", "expected the end of the text", "line 1, column 19"),
        ("plan @a on cpu {", "expected a line of the plan, or '}', found the end", "line 1"),
    ];
    for (text, reason, place) in cases {
        let e = parse(text).unwrap_err();
        assert!(e.reason().contains(reason) && e.place().contains(place), "{e:?} for {text}");
    }
    let deep = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
    assert!(deep.parse::<Expr>().unwrap_err().reason().contains("fewer parentheses"));
}
