"""The layers of a chain in compiled code: one model, one core, forward and backward.

Images lie as ``[channel, row, column, sample]`` and features as ``[feature, sample]``. So a row of all samples is one
run of numbers, a convolution reads its input where it lies, without copies of patches (im2col), and Flatten does
nothing. All numbers lie in one array ``m``, all positions in one table ``t``; a row ``op`` of integers describes a
layer (plan.py). ``n`` is the batch size, ``g`` how far the gradient of a parameter lies behind the parameter.
"""

from __future__ import annotations

import math

import numpy as np

from fedwave.learning.backends.cpu import plan as plan
from fedwave.learning.backends.cpu.products import (
    deviations,
    dot_products,
    fill,
    inlined,
    kernel,
    matrix_product,
    reordering,
    row_sums,
    total,
)
from fedwave.learning.backends.cpu.vectors import larger, read_vector, splat, vector_width, where_equal, write_vector


@inlined
def conv_forward(m, t, op, n):
    """A convolution: a product for each row of the output, which reads rows of the input in place."""
    if op[plan.PACKED]:
        _pack(m, op, n, op[plan.X], op[plan.P], False)
    depth, run = op[plan.C] * op[plan.KH] * op[plan.KW], op[plan.WO] * n
    line = op[plan.SY] * op[plan.SX] * op[plan.WQ] * n
    w, bias, one = op[plan.W], op[plan.B], np.int64(1)
    begin = 1 if bias >= 0 else 0
    for i in range(op[plan.HO]):
        x, y = op[plan.P] + i * line, op[plan.Y] + i * run
        matrix_product(m, t, op[plan.O], w, depth, one, x, op[plan.T_IN], depth, y, op[plan.T_OUT], run, begin, bias)


@kernel
def _pack(m, op, n, image, frame, back):
    """Copy an image into its padding, with columns that are a stride apart side by side; or ``back`` out of it."""
    sx, wq = op[plan.SX], op[plan.WQ]
    for c in range(op[plan.C]):
        for y in range(op[plan.H]):
            row = image + (c * op[plan.H] + y) * op[plan.WD] * n
            framed = frame + (c * op[plan.HP] + y + op[plan.TOP]) * sx * wq * n
            for x in range(op[plan.WD]):
                across = x + op[plan.LEFT]
                at, inside = framed + ((across % sx) * wq + across // sx) * n, row + x * n
                source, target = (at, inside) if back else (inside, at)
                for i in range(n):
                    m[target + i] = m[source + i]


@inlined
def conv_backward(m, t, op, n, g):
    """The gradients by weight and bias, and by the input where it is needed: each output row adds to its input rows."""
    depth, run, rows = op[plan.C] * op[plan.KH] * op[plan.KW], op[plan.WO] * n, op[plan.HO]
    line = op[plan.SY] * op[plan.SX] * op[plan.WQ] * n
    outputs, w, gy, t_in, t_out = op[plan.O], op[plan.W], op[plan.GY], op[plan.T_IN], op[plan.T_OUT]
    dot_products(m, t, outputs, depth, gy, t_out, run, op[plan.P], t_in, line, rows, run, w + g)
    if op[plan.B] >= 0:
        row_sums(m, outputs, rows * run, gy, op[plan.B] + g)
    if op[plan.GX] < 0:
        return
    fill(m, op[plan.GP], op[plan.C] * op[plan.HP] * op[plan.SX] * op[plan.WQ] * n)
    one, adds, none = np.int64(1), np.int64(2), np.int64(0)
    for i in range(rows):
        to = op[plan.GP] + i * line
        matrix_product(m, t, depth, w, one, depth, gy + i * run, t_out, outputs, to, t_in, run, adds, none)
    if op[plan.PACKED]:
        _pack(m, op, n, op[plan.GX], op[plan.GP], True)


@kernel
def pool_forward(m, op, n):
    """The largest of each window (the first of equal ones), which of them it is, and ReLU if it follows."""
    per_vector = vector_width(m)
    of = m.dtype.type
    zero = splat(of(0))
    height, width = op[plan.H], op[plan.WD]
    to = 0
    for c in range(op[plan.C]):
        for yo in range(op[plan.HO]):
            top = yo * op[plan.SY] - op[plan.TOP]
            for xo in range(op[plan.WO]):
                left = xo * op[plan.SX] - op[plan.LEFT]
                # Rows are written whole, in rising order: what is written too far is overwritten by the next.
                for i in range(0, n, per_vector):
                    best, which = splat(of(-np.inf)), zero
                    fresh = True
                    for ky in range(op[plan.KH]):
                        y = top + ky * op[plan.DY]
                        if y < 0 or y >= height:
                            continue
                        for kx in range(op[plan.KW]):
                            x = left + kx * op[plan.DX]
                            if x < 0 or x >= width:
                                continue
                            here = splat(of(ky * op[plan.KW] + kx))
                            value = read_vector(m, op[plan.X] + ((c * height + y) * width + x) * n + i)
                            if fresh:
                                best, which, fresh = value, here, False
                            else:
                                which = larger(value, best, here, which)
                                best = larger(value, best, value, best)
                    if op[plan.RELU]:
                        best = larger(best, zero, best, zero)
                    write_vector(m, op[plan.Y] + to + i, best)
                    write_vector(m, op[plan.ARGMAX] + to + i, which)
                to += n


@kernel
def pool_backward(m, op, n):
    """The gradient goes to the largest pixel of each window."""
    if op[plan.GX] >= 0:
        if op[plan.TILES]:
            _tiling_pool_backward(m, op, n)
        else:
            _any_pool_backward(m, op, n)


@kernel
def _tiling_pool_backward(m, op, n):
    """Windows that cover each pixel once: pixels are written in rising order, as in the forward pass."""
    per_vector = vector_width(m)
    of = m.dtype.type
    zero = splat(of(0))
    kh, kw, columns, relu = op[plan.KH], op[plan.KW], op[plan.WO], op[plan.RELU]
    to = op[plan.GX]
    for row in range(op[plan.C] * op[plan.HO]):
        for ky in range(kh):
            at = row * columns * n
            for _ in range(columns):
                for kx in range(kw):
                    here = splat(of(ky * kw + kx))
                    for i in range(at, at + n, per_vector):
                        value = read_vector(m, op[plan.GY] + i)
                        if relu:
                            value = larger(read_vector(m, op[plan.Y] + i), zero, value, zero)
                        write_vector(
                            m, to + i - at, where_equal(read_vector(m, op[plan.ARGMAX] + i), here, value, zero)
                        )
                    to += n
                at += n


@kernel
def _any_pool_backward(m, op, n):
    height, width = op[plan.H], op[plan.WD]
    fill(m, op[plan.GX], op[plan.C] * height * width * n)
    at = 0
    for c in range(op[plan.C]):
        for yo in range(op[plan.HO]):
            top = yo * op[plan.SY] - op[plan.TOP]
            for xo in range(op[plan.WO]):
                left = xo * op[plan.SX] - op[plan.LEFT]
                for i in range(n):
                    if not (op[plan.RELU] and m[op[plan.Y] + at] <= 0):
                        which = np.int64(m[op[plan.ARGMAX] + at])
                        y = top + which // op[plan.KW] * op[plan.DY]
                        x = left + which % op[plan.KW] * op[plan.DX]
                        m[op[plan.GX] + ((c * height + y) * width + x) * n + i] += m[op[plan.GY] + at]
                    at += 1


@inlined
def linear_forward(m, t, op, n):
    """Weights times features."""
    w, features, bias, one = op[plan.W], op[plan.C], op[plan.B], np.int64(1)
    begin = 1 if bias >= 0 else 0
    x, t_in, y, t_out = op[plan.X], op[plan.T_IN], op[plan.Y], op[plan.T_OUT]
    matrix_product(m, t, op[plan.O], w, features, one, x, t_in, features, y, t_out, n, begin, bias)


@inlined
def linear_backward(m, t, op, n, g):
    """The gradients by weight and bias, and by the input where it is needed."""
    features, outputs, w, gy = op[plan.C], op[plan.O], op[plan.W], op[plan.GY]
    x, turned, t_turned, one, none = op[plan.X], op[plan.SAVED], op[plan.T_TURNED], np.int64(1), np.int64(0)
    for f in range(features):
        for i in range(n):
            m[turned + i * features + f] = m[x + f * n + i]
    t_weights = op[plan.T_WEIGHTS]
    matrix_product(m, t, outputs, gy, n, one, turned, t_turned, n, w + g, t_weights, features, none, none)
    if op[plan.B] >= 0:
        row_sums(m, outputs, n, gy, op[plan.B] + g)
    if op[plan.GX] >= 0:
        gx, t_in, t_out = op[plan.GX], op[plan.T_IN], op[plan.T_OUT]
        matrix_product(m, t, features, w, one, features, gy, t_out, outputs, gx, t_in, n, none, none)


@reordering
def norm_forward(m, op, n, momentum, eps, training):
    """Batch norm; in training by the statistics of the batch, which enter the running ones."""
    of = m.dtype.type
    size = op[plan.H] * op[plan.WD] * n
    for c in range(op[plan.C]):
        x, y = op[plan.X] + c * size, op[plan.Y] + c * size
        mean, variance = np.float64(m[op[plan.MEAN] + c]), np.float64(m[op[plan.VARIANCE] + c])
        if training:
            mean = total(m, x, size) / size
            squares = deviations(m, x, mean, x, mean, size)
            variance = squares / size
            unbiased = squares / (size - 1)
            m[op[plan.MEAN] + c] = (1 - momentum) * m[op[plan.MEAN] + c] + momentum * mean
            m[op[plan.VARIANCE] + c] = (1 - momentum) * m[op[plan.VARIANCE] + c] + momentum * unbiased
        scale = 1 / math.sqrt(variance + eps)
        m[op[plan.SAVED] + c] = mean
        m[op[plan.SAVED] + op[plan.C] + c] = scale
        factor = of(scale * m[op[plan.W] + c])
        shift = of(m[op[plan.B] + c] - mean * scale * m[op[plan.W] + c])
        for i in range(size):
            m[y + i] = m[x + i] * factor + shift


@reordering
def norm_backward(m, op, n, g):
    """The gradients of batch norm in training."""
    of = m.dtype.type
    size = op[plan.H] * op[plan.WD] * n
    for c in range(op[plan.C]):
        x, gy = op[plan.X] + c * size, op[plan.GY] + c * size
        mean, scale = (np.float64(m[op[plan.SAVED] + c]), np.float64(m[op[plan.SAVED] + op[plan.C] + c]))
        sum_ = total(m, gy, size)
        along = deviations(m, gy, 0.0, x, mean, size) * scale
        m[op[plan.B] + c + g] = sum_
        m[op[plan.W] + c + g] = along
        if op[plan.GX] < 0:
            continue
        gx = op[plan.GX] + c * size
        factor = np.float64(m[op[plan.W] + c]) * scale
        by_x = of(-factor * scale * along / size)
        shift = of(-factor * sum_ / size)
        factor_, mean_ = of(factor), of(mean)
        for i in range(size):
            m[gx + i] = factor_ * m[gy + i] + by_x * (m[x + i] - mean_) + shift


@kernel
def pointwise_forward(m, op, size):
    """A function of each number."""
    kind, x, y = op[plan.KIND], op[plan.X], op[plan.Y]
    of = m.dtype.type
    if kind == plan.RELU_LAYER:
        for i in range(size):
            value = m[x + i]
            m[y + i] = of(0) if value <= 0 else value
    elif kind == plan.TANH:
        for i in range(size):
            m[y + i] = math.tanh(m[x + i])
    elif kind == plan.SIGMOID:
        for i in range(size):
            m[y + i] = of(1) / (of(1) + math.exp(-m[x + i]))
    elif kind == plan.GELU:
        for i in range(size):
            value = np.float64(m[x + i])
            m[y + i] = value * 0.5 * (1 + math.erf(value * math.sqrt(0.5)))
    elif kind == plan.GELU_TANH:
        for i in range(size):
            value = np.float64(m[x + i])
            inner = math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)
            m[y + i] = 0.5 * value * (1 + math.tanh(inner))


@kernel
def pointwise_backward(m, op, size):
    """The derivative of ``pointwise_forward``, from the output where that is enough."""
    kind, x, y, gx, gy = op[plan.KIND], op[plan.X], op[plan.Y], op[plan.GX], op[plan.GY]
    of = m.dtype.type
    if gx < 0:
        return
    if kind == plan.RELU_LAYER:
        for i in range(size):
            m[gx + i] = of(0) if m[y + i] <= 0 else m[gy + i]
    elif kind == plan.TANH:
        for i in range(size):
            m[gx + i] = m[gy + i] * (of(1) - m[y + i] * m[y + i])
    elif kind == plan.SIGMOID:
        for i in range(size):
            m[gx + i] = m[gy + i] * (of(1) - m[y + i]) * m[y + i]
    elif kind == plan.GELU:
        for i in range(size):
            value = np.float64(m[x + i])
            density = math.exp(-0.5 * value * value) / math.sqrt(2 * math.pi)
            below = 0.5 * (1 + math.erf(value * math.sqrt(0.5)))
            m[gx + i] = m[gy + i] * (below + value * density)
    elif kind == plan.GELU_TANH:
        for i in range(size):
            value = np.float64(m[x + i])
            root = math.sqrt(2 / math.pi)
            bent = math.tanh(root * (value + 0.044715 * value**3))
            slope = (1 - bent * bent) * root * (1 + 3 * 0.044715 * value * value)
            m[gx + i] = m[gy + i] * (0.5 * (1 + bent) + 0.5 * value * slope)


@kernel
def mixed(x):
    """The mixing of dropout.py, on unsigned numbers; without the sign."""
    x = x * np.uint64(11400714819323198485)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(13787848793156543929)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(10723151780598845931)
    x = x ^ (x >> np.uint64(31))
    return x & np.uint64(9223372036854775807)


@kernel
def dropout(m, from_, to, n, features, p, key, call):
    """Forward and backward alike: both multiply with the mask of dropout.py, whose samples come first."""
    keep = m.dtype.type(1 / (1 - p)) if p < 1 else m.dtype.type(0)
    none = m.dtype.type(0)
    limit = np.uint64(p * 2.0**63) if p < 1 else np.uint64(0)
    first = key + np.uint64(call) * np.uint64(1099511627776)
    for f in range(features):
        for i in range(n):
            drawn = mixed(first + np.uint64(i * features + f))
            at = f * n + i
            m[to + at] = m[from_ + at] * (keep if drawn >= limit else none)


@kernel
def loss_gradient(m, y, gy, n, classes, labels, samples):
    """The gradient of the mean cross-entropy with respect to the outputs."""
    of = m.dtype.type
    share = of(1) / of(n)
    for i in range(n):
        top = m[y + i]
        for c in range(classes):
            value = m[y + c * n + i]
            if value > top or value != value:
                top = value
        total = of(0)
        for c in range(classes):
            value = math.exp(m[y + c * n + i] - top)
            m[gy + c * n + i] = value
            total += value
        for c in range(classes):
            m[gy + c * n + i] *= share / total
        m[gy + labels[samples[i]] * n + i] -= share


@kernel
def sgd_update(m, size, w, start, g, eta, prox, l2):
    """One step of SGD; the gradients of the proximal and the l2 term are known in closed form.

    As a difference w - start: w (1 - pull) + start pull would move w even where it equals start, because the rounded
    factors do not sum to 1.
    """
    of = m.dtype.type
    pull, decay, rate = of(eta * prox), of(eta * l2), of(eta)
    if prox == 0 and l2 == 0:
        for i in range(size):
            m[w + i] -= m[g + i] * rate
    else:
        for i in range(size):
            here = m[w + i]
            m[w + i] = here - (m[g + i] * rate + (here - m[start + i]) * pull + here * decay)
