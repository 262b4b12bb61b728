# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An operator of PyTorch from a kernel: schema, implementation, shapes for tracing, gradients, vmap and
autocast."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import torch
from torch.autograd import forward_ad

from .. import _library as c
from .._arrays import BOOL, FLOAT, INT, RESULT, TORCH, UINT, description
from .._kernels import Arguments, Kernel, Param
from .._modules import load, source
from ._native import Native
from ._shapes import dims_of, symbolic_shapes

Names = Sequence[str]

_ELEMENTS = {getattr(torch, name): element for element, name in TORCH.items() if hasattr(torch, name)}
_FIRST = {"float": torch.float32, "int": torch.int32, "any": torch.float32}
_ALTERNATIVES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
_ALTERNATIVES.update({"f64": torch.float64, "i32": torch.int32, "i64": torch.int64})
_libraries: dict[str, "Operator"] = {}  # by name: the operators that exist


def _schema_type(p: Param) -> str:
    if p.is_tensor:
        return "Tensor?" if p.optional else "Tensor"
    if p.element is None:
        return "Scalar"
    code = p.element[0]
    if code == BOOL:
        return "bool"
    if code in (INT, UINT):
        return "int" if p.kind == c.CONST else "SymInt"
    return "float"


def _default_text(value: Any) -> str:
    return str(value) if not isinstance(value, bool) else ("True" if value else "False")


class Plan:
    """Which parameters of a kernel are arguments, and which are results."""

    def __init__(
        self, kernel: Kernel, also: Names, mutates: Names, defaults: Mapping[str, Any]
    ) -> None:
        self.kernel, self.defaults = kernel, defaults
        self.params = kernel._params
        names = [p.name for p in self.params]
        for name in (*also, *mutates):
            p = self.params[names.index(name)] if name in names else None
            if p is None or not (p.is_tensor and p.written):
                raise TypeError(f"{kernel.name}: '{name}' is no tensor that the kernel writes")
        results = [i for i, p in enumerate(self.params) if p.written and p.name not in mutates]
        self.results = [i for i in results if not self.params[i].optional or names[i] in also]
        self.inputs = [i for i in range(len(names)) if i not in results]
        self.mutates = [i for i in self.inputs if self.params[i].written]

    def schema(self) -> str:
        """Numbers after an argument with a default are named, unless they have one, too. PyTorch takes no
        tensor by name alone, so an optional tensor before another one has no default."""
        parts: list[str] = []
        free = named = False
        tensors = [i for i in self.inputs if self.params[i].is_tensor and not self.params[i].optional]
        last = max(tensors, default=-1)
        for k, i in enumerate(self.inputs):
            p = self.params[i]
            text = _schema_type(p)
            if i in self.mutates:
                text = text.replace("Tensor", f"Tensor(a{k}!)")
            if p.name in self.defaults:
                text, has = f"{text} {p.name}={_default_text(self.defaults[p.name])}", True
            else:
                has = p.is_tensor and p.optional and i > last
                text = f"{text} {p.name}=None" if has else f"{text} {p.name}"
            if free and not has and not named:
                parts.append("*")
                named = True
            free |= has
            parts.append(text)
        made = ", ".join("Tensor" for _ in self.results)
        return f"({', '.join(parts)}) -> {made if len(self.results) == 1 else f'({made})'}"

    def values(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """One value for each parameter of the kernel. PyTorch leaves out arguments that have their default."""
        values: list[Any] = [None] * len(self.params)
        for k, i in enumerate(self.inputs):
            name = self.params[i].name
            values[i] = args[k] if k < len(args) else named.get(name, self.defaults.get(name))
        for i in self.results:
            values[i] = RESULT
        return values

    # ---- shapes for tracing ----------------------------------------------------------------------

    def _open_type(self, p: Param, values: Sequence[Any]) -> torch.dtype:
        """The type of a type parameter, by the rules of tg_kernel_infer."""
        tensors = [(q, v) for q, v in zip(self.params, values) if isinstance(v, torch.Tensor)]
        for q, v in tensors:
            if q.type == p.type:
                return v.dtype
        generic = p.text.partition("[")[0].strip()
        found = re.search(rf"[<,]\s*{generic}: ([^,>]+)", self.kernel.signature)
        names = [name.strip() for name in found[1].split("|")] if found else ["f32"]
        if any(v.dtype == torch.float64 for _, v in tensors) and {"f64", "float", "any"} & {*names}:
            return torch.float64
        return _FIRST.get(names[0]) or _ALTERNATIVES[names[0]]

    def _symbolic(self, values: Sequence[Any]) -> Optional[list[tuple[Any, torch.dtype]]]:
        shapes = symbolic_shapes(self.kernel, values, self.results)
        if shapes is None:
            return None
        types = []
        for i in self.results:
            p = self.params[i]
            known = getattr(torch, TORCH[p.element]) if p.element else None
            types.append(known or self._open_type(p, values))
        return list(zip(shapes, types))

    def _concrete(self, values: Sequence[Any]) -> list[tuple[Any, torch.dtype]]:
        """Asks the library, which also checks ranks, types and extents."""
        given: list[Any] = []
        for value in values:
            if isinstance(value, torch.Tensor):
                code, bits = _ELEMENTS.get(value.dtype, (255, 8))
                shape, strides = [int(n) for n in value.shape], [int(n) for n in value.stride()]
                given.append(description(code, bits, shape, strides))
            else:
                given.append(int(value) if isinstance(value, torch.SymInt) else value)
        found = self.kernel._inferred(Arguments(self.params, given))
        out = []
        for i in self.results:
            t = found[i]
            if not t.flags & c.KNOWN:
                raise TypeError(
                    f"{self.kernel.name}: the shape {self.params[i].text} of '{self.params[i].name}' "
                    f"does not follow from the arguments; list it in mutates="
                )
            name = TORCH[(t.type.code, t.type.bits)]
            out.append((tuple(t.shape[: t.rank]), getattr(torch, name)))
        return out

    def device(self, values: Sequence[Any]) -> torch.device:
        """The device of all tensors."""
        first: Any = None
        for p, v in zip(self.params, values):
            if not isinstance(v, torch.Tensor):
                continue
            if first is not None and v.device != first[1]:
                raise RuntimeError(
                    f"{self.kernel.name}: '{p.name}' is on {v.device}, and '{first[0]}' is on "
                    f"{first[1]}: all tensors must be on one device"
                )
            first = first or (p.name, v.device)
        if first is None:
            raise RuntimeError(f"{self.kernel.name}: no argument is a tensor")
        return torch.device(first[1])

    def fake(self, *args: Any, **named: Any) -> Any:
        values = self.values(args, named)
        device = self.device(values)
        symbolic = any(
            isinstance(n, torch.SymInt)
            for v in values
            for n in (v.shape if isinstance(v, torch.Tensor) else (v,))
        )
        made = (self._symbolic(values) if symbolic else None) or self._concrete(values)
        return _bundle([torch.empty(s, dtype=t, device=device) for s, t in made])

    def run(self, *args: Any, **named: Any) -> Any:
        values = self.values(args, named)
        for i in self.inputs:
            if isinstance(values[i], torch.Tensor) and values[i].requires_grad:
                values[i] = values[i].detach()
        made = self.kernel._run_values(values)
        return made if self.results else None


def _bundle(made: Sequence[Any]) -> Any:
    return made[0] if len(made) == 1 else tuple(made) if made else None


class Gradient:
    """The gradients of an operator by another kernel. Its parameters are named as the operator's: NAME is an
    argument or a result, dNAME (d_NAME, grad_NAME) the gradient of NAME."""

    def __init__(self, forward: Plan, kernel: Kernel, public: Names, gradients: Mapping[str, str]) -> None:
        self.kernel = kernel
        self.name = kernel.name
        self.given = dict(gradients)
        names = [p.name for p in forward.params]
        self.sources: list[tuple[str, str]] = []  # of each input: ("value" or "gradient", name)
        self.targets: dict[str, str] = {}  # input of the operator -> result of the kernel
        for p in kernel._params:
            of = self._gradient_of(p.name, names, public)
            if p.written and of:
                self.targets[of] = p.name
            elif p.written and not p.optional:
                raise TypeError(f"{self.name}: '{p.name}' is the gradient of no parameter of {forward.kernel.name}")
            elif not p.written:
                self._add_source(p, of, names, forward)
        plan_names = [p.name for p in kernel._params if p.written and p.name in self.targets.values()]
        self.plan = Plan(kernel, plan_names, (), {})

    def _gradient_of(self, name: str, names: Names, public: Names) -> Optional[str]:
        if name in self.given:
            return self.given[name]
        for prefix in ("d_", "grad_", "d"):
            if name.startswith(prefix) and name[len(prefix) :] in names:
                return name[len(prefix) :]
        return public[0] if name in ("dout", "grad", "grad_out") and len(public) == 1 else None

    def _add_source(self, p: Param, of: Optional[str], names: Names, forward: Plan) -> None:
        if p.name in names:
            self.sources.append(("value", p.name))
        elif of:
            self.sources.append(("gradient", of))
        else:
            raise TypeError(
                f"{self.name}: '{p.name}' is neither a parameter of {forward.kernel.name} nor the "
                f"gradient of one; gradients={{'{p.name}': NAME}} says of which"
            )

    def saved(self, forward: Plan) -> list[str]:
        """Results of the forward kernel that this one reads."""
        by_name = {p.name: p for p in forward.params}
        return [n for how, n in self.sources if how == "value" and by_name[n].written]


_modes: Any = torch._C._len_torch_dispatch_stack
_functions: Any = torch._C._len_torch_function_stack
_transform: Any = torch._C._functorch.peek_interpreter_stack
_FUNCTIONALIZE: Any = torch._C._functorch.TransformType.Functionalize
_autocast: Any = torch._C._is_any_autocast_enabled
_trace: Any = torch._C._get_tracing_state
_profiler: Any = torch._C._autograd._profiler_enabled
_grad: Any = torch._C._any_requires_grad
_keys_of: Any = torch._C._dispatch_keys
_unwrapped: Any = torch._functorch.utils.unwrap_dead_wrappers
_BELOW_AUTOGRAD: Any = torch._C._after_autograd_keyset
_BELOW_VIEWS: Any = torch._C._after_ADInplaceOrView_keyset
_PLAIN = (int, float, bool, type(None))


def _is_observed() -> bool:
    """Whether a mode, a transform (vmap, grad), autocast, a trace, the profiler or forward mode has to see
    operators."""
    return bool(
        _modes()
        or _functions()
        or _transform()
        or _autocast()
        or _trace()
        or _profiler()
        or forward_ad._current_level >= 0
    )


def _device_keys() -> dict[int, Any]:
    """By the dispatch keys of a dense tensor: the keys that remain where nothing but its device matters."""
    key, keys = torch._C.DispatchKey, torch._C.DispatchKeySet
    known: dict[int, Any] = {}
    for device in ("CPU", "CUDA"):
        own = keys(getattr(key, device))
        inference = own.add(getattr(key, f"Autocast{device}"))  # made in inference mode
        plain = inference.add(key.ADInplaceOrView).add(getattr(key, f"Autograd{device}"))
        known[inference.raw_repr()] = known[plain.raw_repr()] = own
    return known


_DEVICE_KEYS = _device_keys()


class Operator:
    """An operator of PyTorch that runs a kernel: call it, or torch.ops.NAMESPACE.NAME."""

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        backward: Union[Kernel, Callable[..., Any], None],
        setup_context: Optional[Callable[..., Any]],
        returns: Optional[Names],
        mutates: Names,
        defaults: Mapping[str, Any],
        gradients: Mapping[str, str],
        vmap: Optional[str] = None,
        key: Any = None,
    ) -> None:
        if vmap not in (None, "pack"):
            raise ValueError(f"{kernel.name}: vmap is '{vmap}'; it is 'pack' or None")
        self.kernel, self.name, self.vmap, self.key = kernel, name, vmap, key
        self.__doc__, self.__name__ = kernel.__doc__, kernel.name
        whole = Plan(kernel, (), mutates, {})
        public = list(returns or [whole.params[i].name for i in whole.results])
        gradient = None
        if isinstance(backward, Kernel):
            gradient = Gradient(whole, backward, public, gradients)
        also = {*public, *(gradient.saved(whole) if gradient else ())}
        optional = [p.name for p in whole.params if p.written and p.optional]
        self.plan = Plan(kernel, [n for n in optional if n in also], mutates, defaults)
        made = [self.plan.params[i].name for i in self.plan.results]
        self._public = [made.index(n) for n in public]
        self._whole = self._public == list(range(len(made)))
        self.gradient: Optional[Operator] = None
        self._formula: Optional[_Formula] = None
        self._define()
        try:
            self._implement()
            if mutates:
                self._add_mutation()
            else:
                self._add_gradient(gradient, backward, setup_context)
            self._add_vmap()
            self._add_autocast()
        except BaseException:
            self._destroy()
            raise
        _libraries[self.name] = self

    # ---- registration ----------------------------------------------------------------------------

    def _define(self) -> None:
        namespace, _, short = self.name.partition("::")
        self._short = short
        if self.name in _libraries:
            _libraries.pop(self.name)._destroy()
        make: Any = torch.library.Library
        self._library: Any = make(namespace, "FRAGMENT")
        self.schema = short + self.plan.schema()
        self._input_names = [self.plan.params[i].name for i in self.plan.inputs]
        head, by_name, _ = self.schema.partition(", *,")
        self._by_place = head.count(",") + 1 if by_name else len(self._input_names)
        self._native: Optional[Native] = None

    def _implement(self) -> None:
        namespace, short = self.name.partition("::")[0], self._short
        self._library.define(self.schema, tags=(torch.Tag.pt2_compliant_tag,))
        self._native = Native.of(self.plan, self.name)
        for key in () if self._native else ("CPU", "CUDA"):
            self._library.impl(short, self.plan.run, key)
        torch.library.register_fake(self.name, self.plan.fake, lib=self._library)
        self._overload = getattr(getattr(torch.ops, namespace), short).default
        self._redispatch: Any = self._overload._handle.redispatch_boxed

    def _destroy(self) -> None:
        if self._native:
            self._native.destroy()
        self._library._destroy()

    # ---- mutation --------------------------------------------------------------------------------

    def _bump(self, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Tells autograd that tensors have been written, so that a backward that saved them fails."""
        values = self.plan.values(args, named)
        for i in self.plan.mutates:
            if isinstance(values[i], torch.Tensor) and not values[i].is_inference():
                torch.autograd.graph.increment_version(values[i])

    def _add_mutation(self) -> None:
        """An operator that mutates has no gradients: autograd would lose them without a word."""

        def refuse(keys: Any, *args: Any, **named: Any) -> Any:
            if torch.is_grad_enabled() and _grad(*args, **named):
                for p, v in zip(self.plan.params, self.plan.values(args, named)):
                    if isinstance(v, torch.Tensor) and v.requires_grad:
                        raise RuntimeError(
                            f"{self.kernel.name}: '{p.name}' requires grad, and operators that mutate have no "
                            f"gradients: pass {p.name}.detach(), or call under torch.no_grad()"
                        )
            with torch._C._AutoDispatchBelowAutograd():
                return self._redispatch(keys & _BELOW_AUTOGRAD, *args, **named)

        def bump(keys: Any, *args: Any, **named: Any) -> Any:
            with torch._C._AutoDispatchBelowADInplaceOrView():
                made = self._redispatch(keys & _BELOW_VIEWS, *args, **named)
            self._bump(args, named)
            return made

        self._library.impl(self._short, refuse, "Autograd", with_keyset=True)
        self._library.impl(self._short, bump, "ADInplaceOrView", with_keyset=True)

    def _add_gradient(
        self,
        gradient: Optional[Gradient],
        backward: Any,
        setup_context: Optional[Callable[..., Any]],
    ) -> None:
        if gradient is not None:
            self.gradient = Operator(
                gradient.kernel,
                f"{self.name}_gradient",
                None,
                None,
                [gradient.kernel._params[i].name for i in gradient.plan.results],
                (),
                {},
                {},
                self.vmap,
            )
        kernels = _KernelGradient(self, gradient)
        if gradient is None and backward is not None:
            self._formula = _Formula(self, setup_context, backward)
        else:
            self._formula = _Formula(self, setup_context or kernels.setup, kernels.backward)
        self._library.impl(self._short, self._formula.call, "Autograd", with_keyset=True)

    # ---- vmap ------------------------------------------------------------------------------------

    def _batches_by_pack(self, in_dims: Sequence[Optional[int]]) -> Optional[str]:
        """The pack that takes the batch as its first axis, if all batched tensors and all results have it. A
        kernel may compute across its pack, so the caller has to declare that this one does not."""
        if self.vmap != "pack":
            return None
        packs = set()
        for i, dim in zip(self.plan.inputs, in_dims):
            if dim is not None:
                packs.add((dims_of(self.plan.params[i]) or [""])[0])
        packs |= {(dims_of(self.plan.params[i]) or [""])[0] for i in self.plan.results}
        pack = packs.pop() if len(packs) == 1 else ""
        return pack if pack.startswith("..") else None

    def _vmap(
        self, call: Callable[..., Any], info: Any, in_dims: Any, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """call: makes one call, for the arguments by position and those by name."""
        n = info.batch_size
        moved = [
            a.movedim(d, 0) if d is not None else a for a, d in zip(args, in_dims)
        ]
        pack = self._batches_by_pack(in_dims)
        if pack:
            for k, (i, d) in enumerate(zip(self.plan.inputs, in_dims)):
                p = self.plan.params[i]
                if d is None and isinstance(moved[k], torch.Tensor) and dims_of(p)[:1] == [pack]:
                    moved[k] = moved[k].expand(n, *moved[k].shape)
            made = call(moved, named)
            return made, (0 if isinstance(made, torch.Tensor) else (0,) * len(made))
        if n == 0:
            return self._empty_batch(in_dims, moved, named)
        each = [
            call([a[k] if d is not None else a for a, d in zip(moved, in_dims)], named)
            for k in range(n)
        ]
        if isinstance(each[0], torch.Tensor):
            return torch.stack(each), 0
        return tuple(torch.stack(parts) for parts in zip(*each)), (0,) * len(each[0])

    def _empty_batch(self, in_dims: Any, moved: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Results of no elements, with the shapes that an element would have."""
        element = [
            a.new_empty(a.shape[1:]) if d is not None else a for a, d in zip(moved, in_dims)
        ]
        one = self.plan.fake(*element, **named)
        made = [t.new_empty((0, *t.shape)) for t in (one if isinstance(one, tuple) else (one,))]
        return _bundle(made), _bundle([0] * len(made))

    def _add_vmap(self) -> None:
        """The transform calls the overload: it has left its own level, and the dispatcher goes on from there."""

        def call(args: Sequence[Any], named: Mapping[str, Any]) -> Any:
            return self._overload(*args, **named)

        def vmap(info: Any, in_dims: Any, *args: Any, **named: Any) -> Any:
            return self._vmap(call, info, in_dims, args, named)

        if self.plan.results and not self.plan.mutates:
            torch.library.register_vmap(self.name, vmap, lib=self._library)

    # ---- autocast --------------------------------------------------------------------------------

    def _widened(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Floats that share a type parameter take the widest of their types."""
        values = self.plan.values(args, named)
        widest: dict[int, torch.dtype] = {}
        for p, v in zip(self.plan.params, values):
            if isinstance(v, torch.Tensor) and v.is_floating_point() and p.type >= 0:
                widest[p.type] = torch.promote_types(widest.get(p.type, v.dtype), v.dtype)
        for i in self.plan.inputs:
            p, v = self.plan.params[i], values[i]
            if i in self.plan.mutates or not isinstance(v, torch.Tensor) or p.type not in widest:
                continue
            values[i] = v.to(widest[p.type])
        return [values[i] for i in self.plan.inputs]

    def _add_autocast(self) -> None:
        key_of = torch._C.DispatchKey
        for device in ("CPU", "CUDA"):
            keys = torch._C.DispatchKeySet(getattr(key_of, f"Autocast{device}"))

            def cast(*args: Any, _keys: Any = keys, **named: Any) -> Any:
                wide = self._widened(args, named)
                given = {self.plan.params[i].name: v for i, v in zip(self.plan.inputs, wide)}
                with torch._C._ExcludeDispatchKeyGuard(_keys):
                    return self._overload(*wide[: len(args)], **{n: given[n] for n in named})

            self._library.impl(self._short, cast, f"Autocast{device}")

    # ---- calls -----------------------------------------------------------------------------------

    def _direct_keys(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The keys of the implementation, if nothing else has to see the call: dense tensors of one device
        without a gradient, and no mode, transform or trace is active. Otherwise None: PyTorch dispatches."""
        if _is_observed() or (torch.is_grad_enabled() and _grad(*args, **named)):
            return None
        keys = None
        for value in (*args, *named.values()) if named else args:
            kind = type(value)
            if kind is torch.Tensor or kind is torch.nn.Parameter:
                own = _DEVICE_KEYS.get(_keys_of(value).raw_repr())
                if own is None or (keys is not None and keys is not own):
                    return None
                keys = own
            elif kind not in _PLAIN:
                return None
        return keys

    def _accepts(self, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether the schema allows these arguments. If not, PyTorch says why."""
        inputs = [self.plan.params[i] for i in self.plan.inputs]
        given = [p.name for p in inputs[: len(args)]] + list(named)
        needed = {p.name for p in inputs if not p.optional and p.name not in self.plan.defaults}
        last = len(self._split(inputs)[0])
        return len(args) <= last and len({*given}) == len(given) and needed <= {*given} <= {p.name for p in inputs}

    def _dispatch(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Transforms of torch.func see the formula of the gradients, and others the operator."""
        top = None if torch.compiler.is_compiling() else _transform()
        seen = top is not None and top.key() != _FUNCTIONALIZE
        if self._formula is None or not seen or not self._accepts(args, named):
            return self._overload(*args, **named)
        return self._formula.apply(args, named)

    def __call__(self, *args: Any, **named: Any) -> Any:
        keys = None if torch.compiler.is_compiling() else self._direct_keys(args, named)
        if keys is not None:
            try:
                made = self._redispatch(keys, *args, **named)
            except RuntimeError as error:
                if "PyTorch failed to make" not in str(error):
                    raise
                made = self.plan.run(*args, **named)  # raises PyTorch's own exception
            if self.plan.mutates:
                self._bump(args, named)
        else:
            made = self._dispatch(args, named)
        if self._whole:
            return made
        return _bundle([made[i] for i in self._public])

    def _split(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The values of all arguments, as those that are given by position and those by name."""
        n = self._by_place
        return list(values[:n]), dict(zip(self._input_names[n:], values[n:]))

    def _call_ordered(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """All results for the values of all arguments, in the order of the schema."""
        made = self._dispatch(*self._split(values))
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)

    def __repr__(self) -> str:
        return f"<operator {self.name.partition('::')[0]}::{self.schema}>"


class _Formula:
    """The implementation for tensors that may require grad. torch.library.register_autograd has none for
    torch.func, and loses tangents of forward mode."""

    def __init__(self, operator: Operator, setup: Any, backward: Callable[..., Any]) -> None:
        self.operator = operator
        by_name, formula = ", *," in operator.schema, self

        class Formula(torch.autograd.Function):
            """Its last input holds the arguments that are given by name."""

            @staticmethod
            def forward(*inputs: Any) -> Any:
                with torch._C._AutoDispatchBelowAutograd():
                    return operator._overload(*inputs[:-1], **inputs[-1])

            @staticmethod
            def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
                named = {"keyword_only_inputs": inputs[-1]} if by_name else {}
                if setup is not None:
                    setup(ctx=ctx, inputs=inputs[:-1], output=output, **named)

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                needs = ctx.needs_input_grad
                ctx.needs_input_grad = needs[:-1]
                try:
                    made = backward(ctx, *grads)
                finally:
                    ctx.needs_input_grad = needs
                return (*made, None) if isinstance(made, tuple) else (made, None)

            @staticmethod
            def jvp(ctx: Any, *tangents: Any) -> Any:
                raise formula._no_forward_mode("an argument")

            @staticmethod
            def vmap(info: Any, in_dims: Any, *inputs: Any) -> Any:
                return operator._vmap(operator._dispatch, info, in_dims[:-1], inputs[:-1], inputs[-1])

        self.function: Any = Formula
        # Function.apply inspects the signature of forward, which takes half of the time of a call.
        self._plain_apply: Any = super(torch.autograd.Function, Formula).apply

    def _no_forward_mode(self, subject: str) -> NotImplementedError:
        return NotImplementedError(
            f"{self.operator.kernel.name}: {subject} has a tangent, and operators have no forward mode: use "
            f"backward(), torch.func.grad or torch.func.vjp"
        )

    def _refuse_tangents(self, values: Sequence[Any]) -> None:
        for p, value in zip(self.operator.plan.params, values):
            if isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None:
                raise self._no_forward_mode(f"'{p.name}'")

    def apply(self, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        values = self.operator.plan.values(args, named)
        if forward_ad._current_level >= 0:
            self._refuse_tangents(values)
        given, rest = self.operator._split([values[i] for i in self.operator.plan.inputs])
        if _transform():
            return self.function.apply(*given, rest)
        return self._plain_apply(*_unwrapped(tuple(given)), rest)

    def call(self, keys: Any, *args: Any, **named: Any) -> Any:
        if forward_ad._current_level >= 0:
            self._refuse_tangents(self.operator.plan.values(args, named))
        if torch.is_grad_enabled() and _grad(*args):
            if _transform():
                raise NotImplementedError(
                    f"{self.operator.kernel.name}: torch.func differentiates the object that op() returned, and "
                    f"not torch.ops.{self.operator.name.replace('::', '.')}"
                )
            return self.apply(args, named)
        with torch._C._AutoDispatchBelowAutograd():
            return self.operator._redispatch(keys & _BELOW_AUTOGRAD, *args, **named)


class _KernelGradient:
    """The gradients of an operator by the kernel of another one."""

    def __init__(self, operator: Operator, gradient: Optional[Gradient]) -> None:
        self.operator, self.gradient = operator, gradient
        self.plan = operator.plan
        names = [p.name for p in self.plan.params]
        sources = gradient.sources if gradient else []
        self.saved = [names.index(name) for how, name in sources if how == "value"]

    def setup(
        self, ctx: Any, inputs: Sequence[Any], output: Any, keyword_only_inputs: Mapping[str, Any] = {}
    ) -> None:
        plan = self.plan
        made = output if isinstance(output, (tuple, list)) else (output,)
        hidden = [t for i, t in enumerate(made) if i not in self.operator._public]
        hidden += [made[i] for i in self.operator._public if not made[i].is_floating_point()]
        if hidden:
            ctx.mark_non_differentiable(*hidden)
        ctx.types = [a.dtype if isinstance(a, torch.Tensor) else None for a in inputs]
        ctx.count = len(inputs)
        if self.gradient is None:
            return
        values = plan.values(inputs, keyword_only_inputs)
        for i, t in zip(plan.results, made):
            values[i] = t
        wanted = [values[i] for i in self.saved]
        ctx.save_for_backward(*(v for v in wanted if isinstance(v, torch.Tensor)))
        ctx.numbers = [None if isinstance(v, torch.Tensor) else (v,) for v in wanted]

    def _missing(self, name: str) -> RuntimeError:
        head = f"{self.operator.kernel.name}: '{name}' requires grad, "
        if self.gradient is None:
            return RuntimeError(head + f"and the operator has no backward: pass backward= to op(), or {name}.detach()")
        return RuntimeError(head + f"and '{self.gradient.name}' has no result 'd{name}'")

    def backward(self, ctx: Any, *grads: Any) -> Any:
        plan, gradient = self.plan, self.gradient
        names = [plan.params[i].name for i in plan.inputs]
        needed = [n for n, needs in zip(names, ctx.needs_input_grad) if needs]
        for name in needed:
            if gradient is None or name not in gradient.targets:
                raise self._missing(name)
        assert gradient is not None and self.operator.gradient is not None
        results = [plan.params[i].name for i in plan.results]
        tensors = iter(ctx.saved_tensors)
        numbers = iter(ctx.numbers)
        given: list[Any] = []
        for how, name in gradient.sources:
            if how == "value":
                kept = next(numbers)
                given.append(next(tensors) if kept is None else kept[0])
            else:
                given.append(grads[results.index(name)])
        made = self.operator.gradient._call_ordered(given)
        targets = self.operator.gradient.plan
        by_name = {targets.params[i].name: t for i, t in zip(targets.results, made)}
        out = []
        for k in range(ctx.count):
            wanted = names[k] in needed
            out.append(by_name[gradient.targets[names[k]]].to(ctx.types[k]) if wanted else None)
        return tuple(out)


def _kernel_key(kernel: Kernel) -> Any:
    """What a kernel was made from: the file or the text, with the options. Others are themselves."""
    return (*kernel._origin, kernel.name) if kernel._origin is not None else kernel


def _is_current(old: Kernel, new: Kernel) -> bool:
    """Whether a kernel is as good as another one of the same key. A file may have changed."""
    return old is new or (old._origin is not None and old._origin[0] is source)


def op(
    file: Union[str, "os.PathLike[str]", Kernel],
    kernel: Optional[str] = None,
    *,
    backward: Union[str, Kernel, Callable[..., Any], None] = None,
    setup_context: Optional[Callable[..., Any]] = None,
    name: Optional[str] = None,
    returns: Optional[Names] = None,
    mutates: Names = (),
    defaults: Optional[Mapping[str, Any]] = None,
    gradients: Optional[Mapping[str, str]] = None,
    vmap: Optional[str] = None,
    **options: Any,
) -> Operator:
    """Makes an operator of PyTorch from a kernel of a file.

    backward: the kernel of the same file that computes the gradients. It names its parameters as the kernel
    does, and the gradient of NAME dNAME, d_NAME or grad_NAME; `gradients` says what other names are,
    {"dz": "y"}. Or a function as torch.library.register_autograd takes it, with its setup_context. name:
    "namespace::name", by default those of file and kernel; it replaces an operator of that name. returns: the
    results that a call returns, by default all that are not optional. mutates: written tensors that the caller
    passes. defaults: values of numbers that a call may leave out, {"eps": 1e-6}. vmap: "pack" declares that
    elements along a pack (`..R`) do not depend on each other, so that torch.vmap may add the batch to it; by
    default it makes one call for each element. options: those of tegula.load.
    """
    if isinstance(file, Kernel):
        chosen, stem = file, "tegula"
        other: Any = backward
        if isinstance(backward, str):
            raise TypeError("backward must be a kernel, too, where the first argument is one")
    else:
        module = load(file, **options)
        chosen = module[kernel] if kernel else next(iter(module))
        stem = re.sub(r"\W", "_", os.path.splitext(os.path.basename(os.fspath(file)))[0])
        other = module[backward] if isinstance(backward, str) else backward
    chosen_name = name or f"{stem}::{chosen.name}"
    key = (
        _kernel_key(chosen),
        _kernel_key(other) if isinstance(other, Kernel) else other,
        setup_context,
        None if returns is None else tuple(returns),
        tuple(mutates),
        repr(defaults),
        repr(gradients),
        vmap,
    )
    old = _libraries.get(chosen_name)
    if old is not None and old.key == key and _is_current(old.kernel, chosen):
        return old
    if old is not None and old.key != key and name is None:
        raise ValueError(
            f"{chosen.name}: there is another operator {chosen_name}; name='NAMESPACE::NAME' gives this one "
            f"a name of its own"
        )
    return Operator(
        chosen,
        chosen_name,
        other,
        setup_context,
        returns,
        mutates,
        defaults or {},
        gradients or {},
        vmap,
        key,
    )
