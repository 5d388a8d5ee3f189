"""The operator and fla's functions: values, gradients, and what PyTorch users expect of a function."""
import inspect
import multiprocessing
import unittest

import torch
from torch.autograd import forward_ad

from common import GOLDEN, largest_error, operands

import deltaproduct
from deltaproduct import functional as F, safetensors


class Golden(unittest.TestCase):
    def test_fla_function_and_gradients(self):
        files = sorted(GOLDEN.glob("op_*.safetensors"))
        self.assertGreaterEqual(len(files), 5)
        for file in files:
            g = safetensors.load_file(file)
            names = [name for name in ("q", "k", "v", "beta", "g", "h0") if name in g]
            x = {name: g[name].clone().requires_grad_() for name in names}
            o, state = deltaproduct.chunk_gated_delta_product(
                x["q"], x["k"], x["v"], x.get("g"), x["beta"], g["k"].shape[1] // g["q"].shape[1], float(g["scale"]),
                x.get("h0"), output_final_state=True)
            gradients = torch.autograd.grad((o, state), list(x.values()), (g["do"], g["dht"]))
            tolerance = 1e-4 if "g" in g else 1e-5
            for name, got in [("o", o), ("ht", state)] + [("d" + n, d) for n, d in zip(names, gradients)]:
                self.assertLess(largest_error(got, g[name]), tolerance * float(g[name].abs().max()), (file.name, name))


class FlaNames(unittest.TestCase):
    def rule(self, **changes):
        x = operands(N=1, requires_grad=False, **changes)
        return x["q"], x["k"][:, :, 0], x["v"][:, :, 0], x["log_gate"], x["beta"][:, :, 0], x["state"]

    def test_rules_agree_with_the_operator(self):
        q, k, v, g, beta, state = self.rule()
        want = deltaproduct.delta_product(q, k.unsqueeze(2), v.unsqueeze(2), beta.unsqueeze(2), g, state)
        options = dict(initial_state=state, output_final_state=True)
        for got in (deltaproduct.chunk_gated_delta_rule(q, k, v, g, beta, **options),
                    deltaproduct.fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, **options)):
            self.assertTrue(all(map(torch.equal, got, want)))
        want = deltaproduct.delta_product(q, k.unsqueeze(2), v.unsqueeze(2), beta.unsqueeze(2), state=state)
        for got in (deltaproduct.chunk_delta_rule(q, k, v, beta, **options),
                    deltaproduct.fused_recurrent_delta_rule(q, k, v, beta, **options)):
            self.assertTrue(all(map(torch.equal, got, want)))
        self.assertIsNone(deltaproduct.chunk_delta_rule(q, k, v, beta)[1])

    def test_options(self):
        q, k, v, g, beta, state = self.rule()
        norm = lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)
        want, _ = deltaproduct.chunk_delta_rule(norm(3 * q), norm(0.001 * k), v, beta)
        got, _ = deltaproduct.chunk_delta_rule(3 * q, 0.001 * k, v, beta, use_qk_l2norm_in_kernel=True)
        self.assertLess(largest_error(got, want), 1e-6)
        want, last = deltaproduct.chunk_gated_delta_rule(q, k, v, g, beta, initial_state=state, output_final_state=True)
        got, last_t = deltaproduct.chunk_gated_delta_rule(q, k, v, g, beta, initial_state=state.transpose(-1, -2),
                                                          output_final_state=True, state_v_first=True)
        self.assertTrue(torch.equal(got, want) and torch.equal(last_t.transpose(-1, -2), last))
        A_log, dt_bias = torch.zeros(3), torch.ones(3)
        want, _ = deltaproduct.chunk_gated_delta_rule(q, k, v, -torch.nn.functional.softplus(g + 1), 2 * beta.sigmoid())
        got, _ = deltaproduct.fused_recurrent_gated_delta_rule(
            q, k, v, g, beta=beta, use_gate_in_kernel=True, A_log=A_log, dt_bias=dt_bias,
            use_beta_sigmoid_in_kernel=True, allow_neg_eigval=True)
        self.assertLess(largest_error(got, want), 1e-6)

    def test_value_heads_share_keys(self):
        q, k, v, g, beta, _ = self.rule(H=4)
        want, _ = deltaproduct.chunk_gated_delta_rule(*(x[:, :, ::2].repeat_interleave(2, dim=2) for x in (q, k)), v, g, beta)
        got, _ = deltaproduct.chunk_gated_delta_rule(q[:, :, ::2], k[:, :, ::2], v, g, beta)
        self.assertTrue(torch.equal(got, want))

    def test_columns_of_one_tensor_have_one_gradient(self):
        """As models split q, k and v: the same values and gradients as for tensors of their own."""
        leaf = torch.randn(2, 70, 3 * (2 * 8 + 6), generator=torch.Generator().manual_seed(0), requires_grad=True)
        others = operands(B=2, T=70, N=1, H=3, K=8, V=6)
        g, beta, weight = others["log_gate"], others["beta"][:, :, 0], torch.randn(2, 70, 3, 6)

        def split(y):
            return [part.unflatten(-1, (3, -1)) for part in y.split([24, 24, 18], -1)]

        def run(q, k, v):
            o, state = deltaproduct.chunk_gated_delta_rule(q, k, v, g, beta, use_qk_l2norm_in_kernel=True,
                                                           output_final_state=True)
            return [o, state, *torch.autograd.grad((o * weight).sum() + state.sum(), (leaf, g, beta))]
        y = leaf * 1
        q, k, v = split(y)
        self.assertIs(F._joined_columns(q, k, v), y)
        for got, want in zip(run(q, k, v), run(*(x.clone() for x in split(leaf * 1)))):
            self.assertLess(largest_error(got, want), 1e-6)
        with torch.no_grad():
            self.assertIsNone(F._joined_columns(q, k, v))
            unrecorded = split(y)
        wide = leaf.new_zeros(2, 71, 66).requires_grad_() * 1
        for apart in ((k, q, v), (q, k, v * 1), (q, k, v.detach()), (q, k[:, 1:], v), unrecorded, split(wide[:, 1:]), split(leaf)[::-1]):
            self.assertIsNone(F._joined_columns(*apart))

    def test_arguments_in_the_order_of_fla(self):
        """As fla's own functions have them, so that calls by position mean the same."""
        common = "scale initial_state output_final_state use_qk_l2norm_in_kernel"
        in_kernel = "use_beta_sigmoid_in_kernel allow_neg_eigval state_v_first cu_seqlens"
        for function, names in (
                (deltaproduct.chunk_gated_delta_product, f"q k v g beta num_householder {common} cu_seqlens cu_seqlens_cpu"),
                (deltaproduct.chunk_gated_delta_rule,
                 f"q k v g beta {common} {in_kernel} cu_seqlens_cpu chunk_indices cp_context"),
                (deltaproduct.fused_recurrent_gated_delta_rule,
                 f"q k v g gk gv beta {common} use_gate_in_kernel A_log dt_bias {in_kernel}"),
                (deltaproduct.chunk_delta_rule, f"q k v beta {common} cu_seqlens cu_seqlens_cpu"),
                (deltaproduct.fused_recurrent_delta_rule, f"q k v beta {common} cu_seqlens")):
            parameters = inspect.signature(function).parameters.values()
            by_position = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
            self.assertEqual(by_position, names.split(), function.__name__)
        self.assertIs(deltaproduct.chunk_gdn, deltaproduct.chunk_gated_delta_rule)
        self.assertIs(deltaproduct.fused_recurrent_gdn, deltaproduct.fused_recurrent_gated_delta_rule)

    def test_packed_sequences(self):
        x = operands(B=1, N=2, requires_grad=False)
        cu_seqlens = torch.tensor([0, 4, 9])
        flat = [x[name].flatten(1, 2) for name in ("k", "v")]
        o, state = deltaproduct.chunk_gated_delta_product(
            x["q"], *flat, x["log_gate"], x["beta"].flatten(1, 2), 2, cu_seqlens=cu_seqlens, output_final_state=True)
        alone, last = deltaproduct.delta_product(*(x[name][:, 4:] for name in ("q", "k", "v", "beta", "log_gate")))
        self.assertTrue(torch.equal(o[:, 4:], alone) and torch.equal(state[1:], last))

    def test_refusals(self):
        q, k, v, g, beta, _ = self.rule()
        with self.assertRaisesRegex(ValueError, "head_first=True is not supported"):
            deltaproduct.chunk_delta_rule(q, k, v, beta, head_first=True)
        with self.assertRaisesRegex(ValueError, "gk is not supported"):
            deltaproduct.fused_recurrent_gated_delta_rule(q, k, v, g, gk=g, beta=beta)
        with self.assertRaisesRegex(ValueError, "allow_neg_eigval needs use_beta_sigmoid_in_kernel"):
            deltaproduct.chunk_gated_delta_rule(q, k, v, g, beta, allow_neg_eigval=True)
        with self.assertRaisesRegex(ValueError, "cp_context is not supported"):
            deltaproduct.chunk_gated_delta_rule(q, k, v, g, beta, cp_context=object())
        with self.assertRaisesRegex(ValueError, "not both"):
            deltaproduct.chunk_gated_delta_rule(q, k, v, g, beta, state_v_first=True, transpose_state_layout=True)
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'sale'"):
            deltaproduct.chunk_delta_rule(q, k, v, beta, sale=1)
        with self.assertRaisesRegex(ValueError, "fused_recurrent_delta_rule: beta must be .* one number per head, got"):
            deltaproduct.fused_recurrent_delta_rule(q, k, v, beta=v)
        with self.assertRaisesRegex(ValueError, r"k must begin with \[B,T\*num_householder\] = \[2, 18\]"):
            deltaproduct.chunk_gated_delta_product(q, k, v, g, beta, 2)


class Expectations(unittest.TestCase):
    def test_gradcheck(self):
        x = operands(B=1, T=3, H=2, K=3, V=2, dtype=torch.float64)
        self.assertTrue(torch.autograd.gradcheck(deltaproduct.delta_product, tuple(x.values())))
        self.assertTrue(torch.autograd.gradcheck(F.l2_norm, x["q"]))

    def test_sixteen_bits(self):
        want, want_state = deltaproduct.delta_product(**operands(dtype=torch.float64))
        for dtype, tolerance in ((torch.bfloat16, 0.05), (torch.float16, 0.006)):
            o, state = deltaproduct.delta_product(**operands(dtype=dtype))
            self.assertEqual((o.dtype, state.dtype), (dtype, torch.float32))
            self.assertLess(largest_error(o, want), tolerance)

    def test_autocast(self):
        x = operands()
        want, _ = deltaproduct.delta_product(**x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x["q"] = x["q"].detach().bfloat16().requires_grad_()  # as a linear layer under autocast gives it
            o, state = deltaproduct.delta_product(**x)
        self.assertEqual((o.dtype, state.dtype), (torch.bfloat16, torch.float32))
        self.assertLess(largest_error(o, want), 0.05)
        o.float().sum().backward()
        self.assertEqual((x["k"].grad.dtype, x["q"].grad.dtype), (torch.float32, torch.bfloat16))

    def test_meta_tensors(self):
        x = {name: tensor.detach().to("meta") for name, tensor in operands().items()}
        o, state = deltaproduct.delta_product(**x)
        self.assertEqual((tuple(o.shape), tuple(state.shape), o.device.type), ((2, 9, 3, 4), (2, 3, 5, 4), "meta"))

    def test_second_derivatives_and_vmap_are_refused(self):
        x = operands()
        o, _ = deltaproduct.delta_product(**x)
        (dq,) = torch.autograd.grad(o.square().sum(), x["q"], create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "can be differentiated only once"):
            dq.sum().backward()
        vmap = getattr(torch, "vmap", None)
        try:
            from torch.func import vmap
        except ImportError:
            from functorch import vmap
        with self.assertRaisesRegex(RuntimeError, "does not support vmap"):
            vmap(lambda y: F.rms_norm(y, torch.ones(5)))(torch.randn(3, 4, 5))

    def test_forward_mode_and_functional_derivatives_are_refused_in_kernels(self):
        """Where they would be zero. In torch operators they are right."""
        try:
            from torch.func import grad, jvp
        except ImportError:
            from functorch import grad, jvp

        def product(v, implementation="auto"):
            return deltaproduct.delta_product(x["q"], x["k"], v, x["beta"], implementation=implementation)[0]

        def dual(function):
            with forward_ad.dual_level():
                return forward_ad.unpack_dual(function(forward_ad.make_dual(x["v"], tangent))).tangent
        for dtype in (torch.float32, torch.float64):
            x = operands(dtype=dtype, requires_grad=False)
            tangent = torch.randn_like(x["v"])
            weight, ones = torch.ones(x["v"].shape[-1], dtype=dtype), torch.ones_like(x["v"])
            targets = torch.zeros(ones.shape[:-1].numel(), dtype=torch.long)
            cases = [lambda v: F.linear_cross_entropy(v.flatten(0, -2), ones[0, 0, 0], targets)[0], product,
                     lambda v: F.rms_norm(v, weight), lambda v: F.gated_rms_norm(ones, v, weight), lambda v: F.swiglu(v, ones),
                     lambda v: F.short_conv(v.flatten(2), torch.ones(v[0, 0].numel(), 3, dtype=dtype)), F.l2_norm]
            for number, case in enumerate(cases):
                derivatives = (lambda: jvp(case, (x["v"],), (tangent,))[1], lambda: dual(case),
                               lambda: grad(lambda v: case(v).pow(3).sum())(x["v"]))
                with self.subTest(dtype=dtype, case=number):
                    if dtype == torch.float32 or number == 0:
                        for derive in derivatives:
                            with self.assertRaisesRegex(RuntimeError, "does not support forward-mode derivatives and"):
                                derive()
                        continue
                    v = x["v"].clone().requires_grad_()
                    (want,) = torch.autograd.grad(case(v).pow(3).sum(), v)
                    self.assertLess(largest_error(derivatives[2](), want), 1e-12)
                    for derive in derivatives[:2]:
                        along = (3 * case(x["v"]).square() * derive()).sum()
                        self.assertLess(largest_error(along, (want * tangent).sum()), 1e-9)
            if dtype == torch.float64:
                self.assertLess(largest_error(jvp(product, (x["v"],), (tangent,))[1], product(tangent)), 1e-12)
            for implementation in ("chunked", "reference"):  # linear in v
                got = jvp(lambda v: product(v, implementation), (x["v"],), (tangent,))[1]
                self.assertLess(largest_error(got, product(tangent)), 1e-5)

    def test_threads_do_not_change_results(self):
        x = operands(B=4, T=130, K=16, V=16, requires_grad=False)
        before, found = torch.get_num_threads(), []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(deltaproduct.delta_product(**x)[0])
        torch.set_num_threads(before)
        self.assertTrue(torch.equal(found[0], found[1]) and torch.equal(found[0], found[2]))

    def test_a_forked_process_can_compute(self):
        """The threads of the process before do not survive a fork, and GNU OpenMP would wait for them forever."""
        x = operands(B=4, T=130, K=16, V=16, requires_grad=False)
        threads = torch.get_num_threads()
        torch.set_num_threads(2)
        want, _ = deltaproduct.delta_product(**x)  # starts the threads
        context = multiprocessing.get_context("fork")
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=lambda: writer.send(deltaproduct.delta_product(**x)[0].tolist()))
        process.start()
        writer.close()
        finished = reader.poll(60)
        if not finished:
            process.terminate()
        torch.set_num_threads(threads)
        self.assertTrue(finished, "the forked process does not return")
        self.assertTrue(torch.equal(torch.tensor(reader.recv()), want))
        process.join()

    @unittest.skipUnless(hasattr(torch, "compile"), "this torch has no torch.compile")
    def test_compile(self):
        """Without a break in the graph, forward and backward; the second length makes sizes symbolic."""
        import torch._dynamo
        torch._dynamo.reset()
        function = torch.compile(lambda **y: deltaproduct.delta_product(**y)[0].sin(), backend="aot_eager", fullgraph=True)
        for length in (9, 12, 70):
            x, y = operands(T=length), operands(T=length)
            got, want = function(**x), deltaproduct.delta_product(**y)[0].sin()
            self.assertLess(largest_error(got, want), 1e-6)
            got.sum().backward()
            want.sum().backward()
            for name in x:
                self.assertLess(largest_error(x[name].grad, y[name].grad), 1e-5, name)

class Safetensors(unittest.TestCase):
    def test_every_truncation_and_wrong_field_is_refused(self):
        import pathlib
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.safetensors"
            tensors = {"a": torch.arange(6.).reshape(2, 3), "b": torch.ones(3, dtype=torch.bfloat16), "c": torch.ones(0),
                       "d": torch.tensor(3, dtype=torch.int64)}
            safetensors.save_file(tensors, path, {"format": "pt"})
            self.assertEqual([p.name for p in path.parent.iterdir()], [path.name])
            for name, x in safetensors.load_file(path).items():
                self.assertTrue(torch.equal(x, tensors[name]) and x.dtype == tensors[name].dtype)
            data = path.read_bytes()
            for size in range(len(data)):
                path.write_bytes(data[:size])
                with self.assertRaisesRegex(ValueError, "not a valid safetensors file"):
                    safetensors.load_file(path)
            for old, new in ((b"F32", b"F99"), (b"[2,3]", b"[2,4]"), (b'"a"', b'"b"'), (b"[8,32]", b"[0,24]")):
                self.assertIn(old, data)
                path.write_bytes(data.replace(old, new))
                with self.assertRaisesRegex(ValueError, "not a valid safetensors file"):
                    safetensors.load_file(path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
