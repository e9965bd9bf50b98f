// softmax(x * scale) over rows of 512, any number of rows.
func.func @scaled_softmax(%x: tensor<?x512xf32, #graph.dims<s0, 512>>, %scale: tensor<512xf32>) -> tensor<?x512xf32, #graph.dims<s0, 512>>
    attributes {graph.symbols = [{name = "rows", min = 1}]} {
  %0 = graph.broadcast %scale dims = [1] : (tensor<512xf32>) -> tensor<?x512xf32, #graph.dims<s0, 512>>
  %1 = graph.mul %x, %0 : tensor<?x512xf32, #graph.dims<s0, 512>>
  %2 = graph.softmax %1 dim = 1 : tensor<?x512xf32, #graph.dims<s0, 512>>
  return %2 : tensor<?x512xf32, #graph.dims<s0, 512>>
}
