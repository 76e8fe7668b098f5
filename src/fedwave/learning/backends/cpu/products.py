"""Matrix products and sums in compiled code, for rows anywhere in one memory, and how such code is compiled."""

from __future__ import annotations

from typing import Any

from numba import njit

from fedwave.learning.backends.cpu.vectors import DOTS, MOST_VECTORS, ROWS, TILES, vector_width

# These are called from compiled code only, and need nothing that calls from Python need: compiling takes half the time.
_INNER = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Sums may be contracted to fused multiply-adds; infinities and not-a-number stay what they are.
kernel = njit(**_INNER, fastmath={"contract", "nsz"})
# A literal number as an argument makes numba compile the function once more for it: hence np.int64(1) in calls.

# Inlined into its caller. numba recompiles everything that a function calls, so fewer layers of calls compile faster.
inlined = njit(**_INNER, fastmath={"contract", "nsz"}, inline="always")
# The terms of one number may be reordered.
reordering = njit(**_INNER, fastmath={"contract", "nsz", "reassoc"})

_DEPTH = 512  # of a product at a time: what is read then stays in the second cache
_COLUMNS = max(c for _, c in DOTS)


def _rows_of(vectors: int) -> Any:
    """A product whose result is ``vectors`` wide, for any number of rows."""
    many, one = TILES[ROWS, vectors], TILES[1, vectors]

    @inlined
    def rows(m, t, count, a, a_row, a_step, b, b_rows, depth, out, out_rows, last, begin, bias):
        r = 0
        while r + ROWS <= count:
            many(m, t, a + r * a_row, a_row, a_step, b, b_rows, depth, out, out_rows + r, last, begin, bias + r)
            r += ROWS
        while r < count:
            one(m, t, a + r * a_row, a_row, a_step, b, b_rows, depth, out, out_rows + r, last, begin, bias + r)
            r += 1

    return rows


_rows1, _rows2, _rows3, _rows4, _rows5 = (_rows_of(min(v, MOST_VECTORS)) for v in range(1, 6))


@kernel
def matrix_product(m, t, count, a, a_row, a_step, b, b_rows, depth, out, out_rows, width, begin, bias):
    """A matrix product ``[count, width]``; the arguments as those of vectors' tile."""
    per_vector = vector_width(m)
    vectors = (width + per_vector - 1) // per_vector
    blocks = (vectors + MOST_VECTORS - 1) // MOST_VECTORS
    v = 0
    for block in range(blocks):
        n = (vectors - v + blocks - block - 1) // (blocks - block)
        last = min(per_vector, width - (v + n - 1) * per_vector)
        for k in range(0, depth, _DEPTH):
            deep = min(_DEPTH, depth - k)
            how = begin if k == 0 else 2
            a_, b_, out_ = a + k * a_step, b + v * per_vector, out + v * per_vector
            if n == 1:
                _rows1(m, t, count, a_, a_row, a_step, b_, b_rows + k, deep, out_, out_rows, last, how, bias)
            elif n == 2:
                _rows2(m, t, count, a_, a_row, a_step, b_, b_rows + k, deep, out_, out_rows, last, how, bias)
            elif n == 3:
                _rows3(m, t, count, a_, a_row, a_step, b_, b_rows + k, deep, out_, out_rows, last, how, bias)
            elif n == 4:
                _rows4(m, t, count, a_, a_row, a_step, b_, b_rows + k, deep, out_, out_rows, last, how, bias)
            else:
                _rows5(m, t, count, a_, a_row, a_step, b_, b_rows + k, deep, out_, out_rows, last, how, bias)
        v += n


def _columns_of(rows: int) -> Any:
    """Scalar products of ``rows`` rows with any number of columns."""
    many, one = DOTS[rows, _COLUMNS], DOTS[rows, 1]

    @inlined
    def columns(m, t, count, a, a_rows, a_line, b, b_rows, b_line, lines, length, out, out_row):
        c = 0
        while c + _COLUMNS <= count:
            many(m, t, a, a_rows, a_line, b, b_rows + c, b_line, lines, length, out + c, out_row)
            c += _COLUMNS
        while c < count:
            one(m, t, a, a_rows, a_line, b, b_rows + c, b_line, lines, length, out + c, out_row)
            c += 1

    return columns


_columns4, _columns2, _columns1 = (_columns_of(rows) for rows in (ROWS, 2, 1))


@kernel
def dot_products(m, t, rows, columns, a, a_rows, a_line, b, b_rows, b_line, lines, length, out):
    """out[r, c]: scalar products, as those of vectors."""
    r = 0
    while r + ROWS <= rows:
        _columns4(m, t, columns, a, a_rows + r, a_line, b, b_rows, b_line, lines, length, out + r * columns, columns)
        r += ROWS
    if r + 2 <= rows:
        _columns2(m, t, columns, a, a_rows + r, a_line, b, b_rows, b_line, lines, length, out + r * columns, columns)
        r += 2
    while r < rows:
        _columns1(m, t, columns, a, a_rows + r, a_line, b, b_rows, b_line, lines, length, out + r * columns, columns)
        r += 1


@kernel
def fill(m, first, count):
    """Zeros."""
    for i in range(first, first + count):
        m[i] = 0


@kernel
def total(m, first, size):
    """The sum of a row, in double precision.

    The eight partial sums are written out: a compiler that may reorder a sum does so differently in the process that
    compiles than in those that read its cache, and float64 results would differ in their last digits.
    """
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = size - size % 8
    for i in range(first, first + whole, 8):
        a += m[i]
        b += m[i + 1]
        c += m[i + 2]
        d += m[i + 3]
        e += m[i + 4]
        f += m[i + 5]
        g += m[i + 6]
        h += m[i + 7]
    for i in range(first + whole, first + size):
        a += m[i]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@kernel
def deviations(m, x, x_mean, y, y_mean, size):
    """The sum of (x - x_mean) (y - y_mean), as that of ``total``."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = size - size % 8
    for i in range(0, whole, 8):
        a += (m[x + i] - x_mean) * (m[y + i] - y_mean)
        b += (m[x + i + 1] - x_mean) * (m[y + i + 1] - y_mean)
        c += (m[x + i + 2] - x_mean) * (m[y + i + 2] - y_mean)
        d += (m[x + i + 3] - x_mean) * (m[y + i + 3] - y_mean)
        e += (m[x + i + 4] - x_mean) * (m[y + i + 4] - y_mean)
        f += (m[x + i + 5] - x_mean) * (m[y + i + 5] - y_mean)
        g += (m[x + i + 6] - x_mean) * (m[y + i + 6] - y_mean)
        h += (m[x + i + 7] - x_mean) * (m[y + i + 7] - y_mean)
    for i in range(whole, size):
        a += (m[x + i] - x_mean) * (m[y + i] - y_mean)
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@kernel
def row_sums(m, rows, length, x, out):
    """The sum of each row."""
    for r in range(rows):
        m[out + r] = total(m, x + r * length, length)
