"""The rates of this device that kernels are held against: copied and read GB/s, by graph replay over rotated buffers.

usage: python floor.py   prints one JSON line
"""
import json, statistics, torch

def replay(f, sets, calls=60):
    f(*sets[0]); torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            f(*sets[i % len(sets)])
    times = []
    for _ in range(12):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); graph.replay(); b.record(); torch.cuda.synchronize()
        times.append(a.elapsed_time(b) / calls)
    return statistics.median(times[3:])

def main():
    xs = [torch.randn(16384, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    copy = replay(lambda x, y: y.copy_(x), [(xs[0], xs[1]), (xs[2], xs[3])])
    read = replay(lambda x: torch.sum(x), [(x,) for x in xs])
    size = xs[0].numel() * 2
    print(json.dumps(dict(device=torch.cuda.get_device_name(), copy_ms=copy, copy_gbs=2 * size / copy * 1e-6, read_gbs=size / read * 1e-6)))

if __name__ == "__main__":
    main()
