"""Vectors of numbers in compiled code, by LLVM instructions.

A matrix product is fast when its sums stay in registers. numba's loops do not lead to that, so the two inner loops of
products are written here for vectors of the processor's width: TILES and DOTS. All numbers lie in one flat array
("memory"), all positions in one table of integers. Reads may pass the end of a row by less than a vector; plan.py
leaves room for that. Writes never do, except ``write_vector``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

_FEATURES = binding.get_host_cpu_features()
_BYTES = 64 if _FEATURES.get("avx512f") else 32 if _FEATURES.get("avx2") or _FEATURES.get("avx") else 16
# Sums of a tile: rows x vectors. AVX2 has 16 registers, AVX-512 and NEON have 32.
ROWS = 4
MOST_VECTORS = 3 if _BYTES == 32 else 5
WIDTH32, WIDTH64 = _BYTES // 4, _BYTES // 8

_INT = types.intp


class Vector(types.Type):
    """A vector of numbers of one type, as wide as the processor's registers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, _llvm(kind.dtype))


def _llvm(dtype: Any) -> ir.VectorType:
    if dtype == types.float32:
        return ir.VectorType(ir.FloatType(), WIDTH32)
    return ir.VectorType(ir.DoubleType(), WIDTH64)


class _Code:
    """Writes instructions for vectors of one type."""

    def __init__(self, context: Any, builder: Any, dtype: Any) -> None:
        self.context, self.builder = context, builder
        self.vector = _llvm(dtype)
        self.size = 4 if dtype == types.float32 else 8
        self.width = self.vector.count
        self.index = context.get_value_type(_INT)

    def number(self, value: int) -> Any:
        return ir.Constant(self.index, value)

    def data(self, kind: Any, array: Any) -> Any:
        return self.context.make_array(kind)(self.context, self.builder, array).data

    def read(self, data: Any, position: Any) -> Any:
        place = self.builder.gep(data, [position])
        place = self.builder.bitcast(place, self.vector.as_pointer())
        return self.builder.load(place, align=self.size)

    def write(self, data: Any, position: Any, value: Any) -> None:
        place = self.builder.gep(data, [position])
        place = self.builder.bitcast(place, self.vector.as_pointer())
        self.builder.store(value, place, align=self.size)

    def write_part(self, data: Any, position: Any, value: Any, count: Any) -> None:
        """Write the first ``count`` numbers of a vector."""
        builder = self.builder
        whole = builder.icmp_signed(">=", count, self.number(self.width))
        with builder.if_else(whole) as (then, otherwise):
            with then:
                self.write(data, position, value)
            with otherwise:
                kept = cgutils.alloca_once_value(builder, value)
                first = builder.bitcast(kept, self.vector.element.as_pointer())
                with cgutils.for_range(builder, count) as loop:
                    one = builder.load(builder.gep(first, [loop.index]))
                    builder.store(one, builder.gep(data, [builder.add(position, loop.index)]))

    def entry(self, data: Any, *terms: Any) -> Any:
        return self.builder.load(self.builder.gep(data, [self.total(*terms)]))

    def total(self, *terms: Any) -> Any:
        found = terms[0]
        for term in terms[1:]:
            found = self.builder.add(found, term)
        return found

    def splat(self, value: Any, vector: Any = None) -> Any:
        """One number, repeated; ``vector`` is the type, unless it is that of the memory."""
        blank = ir.Constant(vector or self.vector, ir.Undefined)
        first = self.builder.insert_element(blank, value, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        return self.builder.shuffle_vector(first, first, zeros)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, in one instruction where the processor has it."""
        name = f"llvm.fmuladd.v{self.width}f{8 * self.size}"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [a, b, c])

    def zero(self) -> Any:
        return ir.Constant(self.vector, [0.0] * self.width)

    def sum(self, value: Any) -> Any:
        """The sum of the numbers of a vector, halves first: always in the same order."""
        width = self.width
        while width > 1:
            width //= 2
            order = [i + width if i < width else i for i in range(self.width)]
            shuffle = ir.Constant(ir.VectorType(ir.IntType(32), self.width), order)
            value = self.builder.fadd(value, self.builder.shuffle_vector(value, value, shuffle))
        return self.builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    def first_numbers(self, count: Any) -> Any:
        """A mask of the first ``count`` numbers."""
        kind = ir.VectorType(self.index, self.width)
        numbers = ir.Constant(kind, list(range(self.width)))
        return self.builder.icmp_signed("<", numbers, self.splat(count, kind))


def _function(name: str, memory: Any, table: Any, body: Any) -> Any:
    """Code of an intrinsic that calls a function of its own, which is not copied into its callers.

    The copies would double the time that compiling takes. ``body`` writes it: code, memory, table, then positions.
    """

    def call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        outside = _Code(context, builder, memory.dtype)
        given = [outside.data(memory, arguments[0]), outside.data(table, arguments[1]), *arguments[2:]]
        full = f"fedwave_{name}_{memory.dtype}"
        function = builder.module.globals.get(full)
        if function is None:
            kind = ir.FunctionType(ir.VoidType(), [value.type for value in given])
            function = ir.Function(builder.module, kind, full)
            function.linkage = "linkonce_odr"
            function.attributes.add("noinline")
            inside = ir.IRBuilder(function.append_basic_block("entry"))
            body(_Code(context, inside, memory.dtype), *function.args)
            inside.ret_void()
        builder.call(function, given)
        return context.get_dummy_value()

    return call


@intrinsic
def vector_width(_: Any, memory: Any) -> Any:
    """The number of numbers in a vector."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(context.get_value_type(_INT), _llvm(memory.dtype).count)

    return _INT(memory), code


@intrinsic
def read_vector(_: Any, memory: Any, position: Any) -> Any:
    """The vector at a position."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, memory.dtype)
        return code.read(code.data(memory, arguments[0]), arguments[1])

    return Vector(memory.dtype)(memory, _INT), code


@intrinsic
def write_vector(_: Any, memory: Any, position: Any, value: Any) -> Any:
    """Write a whole vector; numbers after a short row are overwritten too."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = _Code(context, builder, memory.dtype)
        code.write(code.data(memory, arguments[0]), arguments[1], arguments[2])
        return context.get_dummy_value()

    return types.void(memory, _INT, value), code


@intrinsic
def splat(_: Any, number: Any) -> Any:
    """A vector that repeats one number."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _Code(context, builder, number).splat(arguments[0])

    return Vector(number)(number), code


@intrinsic
def larger(_: Any, a: Any, b: Any, if_larger: Any, if_not: Any) -> Any:
    """``if_larger`` where a > b or a is not a number, ``if_not`` elsewhere."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b, x, y = arguments
        above = builder.fcmp_ordered(">", a, b)
        none = builder.fcmp_unordered("uno", a, a)
        return builder.select(builder.or_(above, none), x, y)

    return a(a, b, a, a), code


@intrinsic
def where_equal(_: Any, a: Any, b: Any, if_equal: Any, if_not: Any) -> Any:
    """``if_equal`` where a == b, ``if_not`` elsewhere."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b, x, y = arguments
        return builder.select(builder.fcmp_ordered("==", a, b), x, y)

    return a(a, b, a, a), code


def _tile_product(rows: int, vectors: int) -> Any:
    @intrinsic
    def product(_, memory, table, a, a_row, a_step, b, b_rows, depth, out, out_rows, last, begin, bias):
        """A tile of a matrix product, ``rows`` x ``vectors``, all sums in registers.

        out[table[out_rows + r] + v] = sum over k < depth of a[r * a_row + k * a_step] * b[table[b_rows + k] + v].
        ``last``: numbers of the last vector that are written. ``begin``: the sums begin with 0 (0), or with the numbers
        at ``bias`` (1), or are added to what is there (2).
        """

        def body(code: _Code, data: Any, positions: Any, *arguments: Any) -> None:
            builder = code.builder
            a, a_row, a_step, b, b_rows, depth, out, out_rows, last, begin, bias = arguments
            shifts = [code.number(v * code.width) for v in range(vectors)]
            a_at = [builder.add(a, builder.mul(a_row, code.number(r))) for r in range(rows)]
            out_at = [builder.add(out, code.entry(positions, out_rows, code.number(r))) for r in range(rows)]
            sums = [[cgutils.alloca_once_value(builder, code.zero()) for _ in range(vectors)] for _ in range(rows)]
            with builder.if_then(builder.icmp_signed("==", begin, code.number(1))):
                for r in range(rows):
                    first = code.splat(code.entry(data, bias, code.number(r)))
                    for v in range(vectors):
                        builder.store(first, sums[r][v])
            with cgutils.for_range(builder, depth) as loop:
                k = loop.index
                b_at = builder.add(b, code.entry(positions, b_rows, k))
                b_row = [code.read(data, builder.add(b_at, shift)) for shift in shifts]
                along = builder.mul(k, a_step)
                for r in range(rows):
                    factor = code.splat(code.entry(data, a_at[r], along))
                    for v in range(vectors):
                        old = builder.load(sums[r][v])
                        builder.store(code.fma(factor, b_row[v], old), sums[r][v])
            adds = builder.icmp_signed("==", begin, code.number(2))
            for r in range(rows):
                places = [builder.add(out_at[r], shift) for shift in shifts]
                with builder.if_then(adds):  # row after row, since rows may overlap
                    for v in range(vectors):
                        there = code.read(data, places[v])
                        builder.store(builder.fadd(there, builder.load(sums[r][v])), sums[r][v])
                for v in range(vectors - 1):
                    code.write(data, places[v], builder.load(sums[r][v]))
                code.write_part(data, places[-1], builder.load(sums[r][-1]), last)

        signature = types.void(memory, table, *[_INT] * 11)
        return signature, _function(f"tile_{rows}_{vectors}", memory, table, body)

    return product


def _dot_products(rows: int, columns: int) -> Any:
    @intrinsic
    def products(_, memory, table, a, a_rows, a_line, b, b_rows, b_line, lines, length, out, out_row):
        """Scalar products of ``rows`` with ``columns`` long vectors, each of ``lines`` pieces of ``length`` numbers.

        out[r * out_row + c] = sum over y and q of
        a[table[a_rows + r] + y * a_line + q] * b[table[b_rows + c] + y * b_line + q].
        """

        def body(code: _Code, data: Any, positions: Any, *arguments: Any) -> None:
            builder = code.builder
            a, a_rows, a_line, b, b_rows, b_line, lines, length, out, out_row = arguments
            a_at = [builder.add(a, code.entry(positions, a_rows, code.number(r))) for r in range(rows)]
            b_at = [builder.add(b, code.entry(positions, b_rows, code.number(c))) for c in range(columns)]
            sums = [[cgutils.alloca_once_value(builder, code.zero()) for _ in range(columns)] for _ in range(rows)]
            width = code.number(code.width)
            whole = builder.sdiv(length, width)
            behind = builder.mul(whole, width)
            rest = builder.sub(length, behind)
            mask = code.first_numbers(rest)

            def add(in_a: Any, in_b: Any, part: bool) -> None:
                right = [code.read(data, builder.add(at, in_b)) for at in b_at]
                if part:  # both: what lies behind a row may be infinite
                    right = [builder.select(mask, vector, code.zero()) for vector in right]
                for r in range(rows):
                    left = code.read(data, builder.add(a_at[r], in_a))
                    if part:
                        left = builder.select(mask, left, code.zero())
                    for c in range(columns):
                        old = builder.load(sums[r][c])
                        builder.store(code.fma(left, right[c], old), sums[r][c])

            with cgutils.for_range(builder, lines) as line:
                from_a, from_b = (builder.mul(line.index, step) for step in (a_line, b_line))
                with cgutils.for_range(builder, whole) as loop:
                    q = builder.mul(loop.index, width)
                    add(builder.add(from_a, q), builder.add(from_b, q), False)
                with builder.if_then(builder.icmp_signed(">", rest, code.number(0))):
                    add(builder.add(from_a, behind), builder.add(from_b, behind), True)
            for r in range(rows):
                row = builder.add(out, builder.mul(out_row, code.number(r)))
                for c in range(columns):
                    place = builder.gep(data, [builder.add(row, code.number(c))])
                    builder.store(code.sum(builder.load(sums[r][c])), place)

        signature = types.void(memory, table, *[_INT] * 10)
        return signature, _function(f"dots_{rows}_{columns}", memory, table, body)

    return products


TILES = {(r, v): _tile_product(r, v) for r in (ROWS, 1) for v in range(1, MOST_VECTORS + 1)}
DOTS = {(r, c): _dot_products(r, c) for r in (ROWS, 2, 1) for c in (4 if _BYTES != 32 else 2, 1)}
