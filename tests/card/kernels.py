"""What a CUDA build of PyTorch cannot do and a CPU build does not show: one table for each.

As documented: torch.linalg takes single and double precision, real and complex, and
torch.use_deterministic_algorithms lists what has no deterministic kernel.
"""

import os

import torch

NO_HALF = frozenset(
    """
    _cdist_backward _cdist_forward _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex
    _linalg_svd _pdist_forward cholesky_inverse cholesky_solve geqrf histc linalg_cholesky_ex
    linalg_eig linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_lu
    linalg_lu_factor_ex linalg_lu_solve linalg_qr linalg_solve_triangular ormqr
    triangular_solve
    """.split()
)
"""Have no kernel for bfloat16 and float16."""

NEVER_DETERMINISTIC = frozenset(
    """
    _ctc_loss_backward adaptive_max_pool2d_backward _adaptive_avg_pool2d_backward cumsum
    grid_sampler_2d_backward histc nll_loss2d_forward nll_loss2d_backward put_
    reflection_pad1d_backward reflection_pad2d_backward upsample_bilinear2d_backward
    upsample_linear1d_backward
    """.split()
)
"""Raise where deterministic algorithms are asked for, as far as floating point is concerned."""

DETERMINISTIC_WHERE_ASKED = frozenset(
    """
    _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_flash_attention_backward
    """.split()
)
"""Have a deterministic kernel, and take the other one where a warning is all that is asked for."""

PRODUCTS = frozenset("addmm addmv baddbmm bmm mm mv".split())
"""Raise where deterministic algorithms are asked for and cuBLAS has no buffers of a fixed size."""

ONE_DEVICE = ("cat", "stack")
"""Take no tensor of the host, not even one without axes, which most operators take."""

FIXED_BUFFERS = (":4096:8", ":16:8")  # of CUBLAS_WORKSPACE_CONFIG

SIZED_BY_CONTENT = (
    "_unique2",
    "masked_select",
    "nonzero",
    "repeat_interleave",
    "unique_consecutive",
    "unique_dim",
)
"""Make the host wait to learn how much they return."""

NO_LAUNCH = "empty empty_like empty_strided new_empty new_empty_strided resize_ set_".split()
"""Reserve memory and leave it as it is."""


def check(name, tensors, undetermined):
    """Raise what CUDA raises for such tensors, or note what it silently does in another order."""
    dtypes = {one.dtype for one in tensors}
    if name in NO_HALF and dtypes & {torch.bfloat16, torch.float16}:
        raise NotImplementedError(f'"{name}_cuda" not implemented for half precision')
    asked = torch.are_deterministic_algorithms_enabled()
    strict = asked and not torch.is_deterministic_algorithms_warn_only_enabled()
    if name in NEVER_DETERMINISTIC and any(dtype.is_floating_point for dtype in dtypes):
        if strict:
            raise RuntimeError(f"{name} does not have a deterministic implementation")
        undetermined.add(name)
    elif name in PRODUCTS and os.environ.get("CUBLAS_WORKSPACE_CONFIG") not in FIXED_BUFFERS:
        if strict:
            raise RuntimeError(f"{name} is not deterministic without CUBLAS_WORKSPACE_CONFIG")
        undetermined.add(name)
    elif name in DETERMINISTIC_WHERE_ASKED and not strict:
        undetermined.add(name)
