// layer norm with weight and bias over the last dimension, bf16 [16384, 4096].
func.func @layernorm(%x: tensor<16384x4096xbf16> {graph.name = "x"}, %w: tensor<4096xbf16> {graph.name = "w"}, %b: tensor<4096xbf16> {graph.name = "b"}) -> tensor<16384x4096xbf16> {
  %0 = graph.layer_norm %x affine(%w, %b) dims = 1 epsilon = 1.000000e-05 : (tensor<16384x4096xbf16>, tensor<4096xbf16>, tensor<4096xbf16>) -> tensor<16384x4096xbf16>
  return %0 : tensor<16384x4096xbf16>
}
