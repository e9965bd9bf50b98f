"""PyTorch's op database against a back end of torch.compile: `cargo xtask suite opinfo`, or `python tools/suites/opinfo`.

At most four samples an (op, dtype) of f32, bf16, f16, i64 and bool, forward; backward in f32; and the inputs that must raise an error.
"""

import argparse
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import classes  # noqa: E402


def arguments():
    p = argparse.ArgumentParser(prog="opinfo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", default="cpu", help="cpu or cuda")
    p.add_argument("--backend", default="strata", help="any back end of torch.compile (default: strata)")
    p.add_argument("--numerics", default="", choices=("", "default", "strict"), help="an option of strata; strict compares bit by bit")
    p.add_argument("--slice", default="1/1", metavar="i/n", help="every n-th op, from the i-th")
    p.add_argument("--only", action="append", default=[], metavar="OP", help="ops by name, as PyTorch's database has them; * matches anything")
    p.add_argument("--kind", action="append", default=[], choices=(*classes.COUNTED, "other"), help="only ops of that class")
    p.add_argument("--mode", action="append", default=[], choices=("forward", "backward", "error"))
    p.add_argument("--dtype", action="append", default=[])
    p.add_argument("--together", action="store_true", help="all samples of an (op, dtype) in one function, where that passes: faster, but what falls back is told of all at once")
    p.add_argument("--jobs", type=int, default=0, help="processes (default: one a core)")
    p.add_argument("--timeout", type=float, default=120, help="seconds a sample")
    p.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS", help="start nothing more after that long, and report what was run")
    p.add_argument("--json", metavar="FILE", help="totals, and a record a sample")
    p.add_argument("--status", metavar="FILE", help="write the page of all ops (docs/status/opinfo.md)")
    p.add_argument("--record", metavar="FILE", help="write verdicts to compare with: what passed, without times or reasons")
    p.add_argument("--resume", action="store_true", help="leave out what the file of --record has")
    return p.parse_args()


def main():
    args = arguments()
    import report
    import run

    began = time.time()
    records = run.run(args)
    verdicts = report.verdicts(args.device, HERE)
    totals = report.totals(records, verdicts, args)
    totals["seconds"] = round(time.time() - began, 1)
    report.print_totals(totals, records)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({**totals, "records": records}, f, indent=None, separators=(",", ":"))
    if args.status:
        report.write_status(args.status, records, totals)
    if args.record:
        report.write_verdicts(args.record, records, args)
    return 1 if totals["failed"] or totals["died"] else 0


if __name__ == "__main__":
    sys.exit(main())
