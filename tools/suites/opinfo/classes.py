"""Which class an entry of PyTorch's op database belongs to. The bar for native samples counts the first five classes."""

COUNTED = ("pointwise", "reduction", "view", "indexing", "product")

_BY_TYPE = {"UnaryUfuncInfo": "pointwise", "BinaryUfuncInfo": "pointwise", "ReductionOpInfo": "reduction", "ShapeFuncInfo": "view"}

_BY_NAME = {
    "pointwise": """
        addcdiv addcmul clamp lerp where masked_fill masked.logaddexp logaddexp2 _softmax_backward_data isin bucketize
        native_dropout_backward nn.functional.gelu nn.functional.glu nn.functional.hardswish nn.functional.leaky_relu
    """,
    "reduction": """
        aminmax allclose equal max min norm linalg.norm linalg.matrix_norm logsumexp log_softmax softmax std_mean var_mean trace
        dist masked.log_softmax masked.normalize masked.softmax masked.softmin nn.functional.softmin nn.functional.normalize
        nn.functional.group_norm nn.functional.instance_norm nn.functional.layer_norm nn.functional.rms_norm native_layer_norm
        renorm torch.ops.aten._safe_softmax.default nn.functional.cosine_similarity nn.functional.pairwise_distance
    """,
    "view": """
        H T mH mT t t_copy alias_copy as_strided as_strided_copy atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors
        broadcast_to cat chunk clone column_stack constant_pad_nd contiguous diag diag_embed diagflat diagonal diagonal_copy
        dsplit dstack expand expand_as expand_copy flatten flip fliplr flipud hsplit hstack linalg.diagonal meshgrid movedim
        narrow narrow_copy nn.functional.channel_shuffle nn.functional.pad nn.functional.pixel_shuffle
        nn.functional.pixel_unshuffle nn.functional.unfold permute permute_copy ravel reshape reshape_as resolve_conj resolve_neg
        roll rot90 select slice split split_with_sizes split_with_sizes_copy squeeze squeeze_copy stack sum_to_size swapaxes
        tensor_split transpose transpose_copy tril triu unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split
        unsqueeze unsqueeze_copy view view_as view_copy vsplit vstack to fft.fftshift fft.ifftshift _chunk_cat
    """,
    "indexing": """
        __getitem__ as_strided_scatter diagonal_scatter gather index_add index_copy index_fill index_put index_reduce index_select
        nn.functional.embedding nn.functional.embedding_bag nn.functional.one_hot put scatter scatter_add scatter_reduce
        select_scatter slice_scatter take take_along_dim _unsafe_masked_index _unsafe_masked_index_put_accumulate
    """,
    "product": """
        __rmatmul__ addbmm addmm addmv addr baddbmm bmm dot einsum inner kron linalg.multi_dot linalg.vecdot matmul mm mv outer
        tensordot vdot nn.functional.linear nn.functional.bilinear nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d
        nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d linalg.matrix_power
        nn.functional.scaled_dot_product_attention nn.functional.multi_head_attention_forward
    """,
}
_NAMES = {name: kind for kind, names in _BY_NAME.items() for name in names.split()}

# Their results are what the memory held before, so only the form can be compared.
UNDEFINED_VALUES = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"}


def class_of(op):
    """The class of an entry of `op_db`: one of COUNTED, or "other"."""
    return _NAMES.get(op.name) or _BY_TYPE.get(type(op).__name__, "other")
