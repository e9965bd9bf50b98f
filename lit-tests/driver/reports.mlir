// Timing whose lines add up, counters, a trace, a picture; each as text and as JSON.
// RUN: strata-opt %s --passes=cse,decompose-composites --timing --stats -o /dev/null 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: strata-opt %s --passes=cse,decompose-composites --timing --stats --json -o /dev/null 2> %t.json
// RUN: %python -c "import json; d = json.load(open('%t.json')); t = d['timing']; assert abs(sum(l['seconds'] for l in t['lines']) - t['total']) < 1e-9; assert t['lines'][-1]['name'] == 'unattributed'; assert d['stats'] == {'decompose-composites': {'softmax': 2}}; assert d['diagnostics'] == []"
// RUN: strata-opt %s --passes=cse --timing=json -o /dev/null 2>&1 | FileCheck %s --check-prefix=JSON
// RUN: strata-opt %s --passes=symbol-dce,decompose-composites --trace=%t.trace -o /dev/null
// RUN: FileCheck %s --check-prefix=TRACE --input-file=%t.trace
// RUN: strata-opt %s --passes=decompose-composites --view=%t.svg -o /dev/null
// RUN: %python -c "import xml.dom.minidom; xml.dom.minidom.parse('%t.svg')"
// RUN: FileCheck %s --check-prefix=VIEW --input-file=%t.svg

// TEXT: ms       %
// TEXT: context
// TEXT: parse
// TEXT: step 1: cse
// TEXT: step 2: decompose-composites
// TEXT: verification
// TEXT: unattributed
// TEXT: 100.0  total
// TEXT: 2  decompose-composites: softmax
// JSON: {"timing":{"lines":[{{.*}}"name":"step 1: cse"

// TRACE: {"ops":{{.*}}"graph.softmax":2{{.*}}"pass":"input","step":0}
// TRACE-NEXT: {"changed":false,{{.*}}"pass":"symbol-dce"
// TRACE-NEXT: {"changed":true,{{.*}}"graph.exp":2{{.*}}"pass":"decompose-composites",{{.*}}"stats":{"softmax":2},"step":2

// VIEW: <svg
// VIEW: @f
// VIEW: argument 0
// VIEW: 4xf32

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.softmax %x dim = 0 : tensor<4xf32>
  %1 = graph.softmax %0 dim = 0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
