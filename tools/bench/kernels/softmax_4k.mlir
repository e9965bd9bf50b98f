// softmax over the last dimension, bf16 [16384, 4096]: 134 MB read, 134 MB written.
func.func @softmax_4k(%x: tensor<16384x4096xbf16> {graph.name = "x"}) -> tensor<16384x4096xbf16> {
  %0 = graph.softmax %x dim = 1 : tensor<16384x4096xbf16>
  return %0 : tensor<16384x4096xbf16>
}
