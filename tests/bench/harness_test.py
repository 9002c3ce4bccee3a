# SPDX-License-Identifier: Apache-2.0
"""The bench harness itself: limits, comparison by ratio, tables, what a bench file must have. Needs no build."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import Bench, Figure, Server, compare, table_text


def stored(**values):
    return [{"name": name, "compared": value} for name, value in values.items()]


class Comparison(unittest.TestCase):
    def test_lower_is_better_unless_said_otherwise(self):
        figures = [Figure("time", 0, "ms", 3.0, tolerance=1.5), Figure("rate", 0, "1/s", 50.0, better="higher", tolerance=1.5)]
        verdicts, alone = compare(stored(time=2.0, rate=100.0), figures)
        self.assertEqual([(v.name, v.worse, v.fine()) for v in verdicts], [("rate", 2.0, False), ("time", 1.5, True)])
        self.assertEqual(alone, [])

    def test_a_better_run_is_fine(self):
        verdicts, _ = compare(stored(time=2.0), [Figure("time", 0, "ms", 0.5, tolerance=1.0)])
        self.assertTrue(verdicts[0].fine())
        self.assertEqual(verdicts[0].worse, 0.25)

    def test_one_tolerance_for_all(self):
        verdicts, _ = compare(stored(time=2.0), [Figure("time", 0, "ms", 2.2, tolerance=1.0)], 1.2)
        self.assertTrue(verdicts[0].fine())

    def test_figures_of_one_run_only_are_named_not_compared(self):
        verdicts, alone = compare(stored(gone=1.0, kept=1.0), [Figure("kept", 0, "", 1.0), Figure("new", 0, "", 9.0)])
        self.assertEqual([v.name for v in verdicts], ["kept"])
        self.assertEqual(alone, ["gone", "new"])

    def test_nothing_where_something_was_is_worse(self):
        verdicts, _ = compare(stored(rate=5.0), [Figure("rate", 0, "", 0.0, better="higher")])
        self.assertFalse(verdicts[0].fine())

    def test_limits(self):
        self.assertTrue(Figure("a", 1.1, "", 1.1, limit=1.1).within_limit())
        self.assertFalse(Figure("a", 1.11, "", 1.11, limit=1.1).within_limit())
        self.assertFalse(Figure("a", 0.9, "", 0.9, better="higher", limit=1.0).within_limit())
        self.assertTrue(Figure("a", 1e9, "", 1e9).within_limit())


class Measuring(unittest.TestCase):
    COMMAND = [sys.executable, "-uc", "import sys\nprint('ready')\nfor i, line in enumerate(sys.stdin): print(1000000000 * (1 + i % 2), 7)"]

    def test_ratios_are_taken_with_the_yardstick_on_both_sides(self):
        bench = Bench("x", ".", ".")
        with Server("one, two", self.COMMAND) as yardstick:  # 1 s before, 2 s after: 1.5 s
            seconds, ratio, last = bench.against_yardstick(lambda: (3.0, "last"), 3, yardstick)
        self.assertEqual((seconds, ratio, last), (3.0, 2.0, "last"))

    def test_a_server_that_ends_is_an_error(self):
        with self.assertRaises(RuntimeError):
            Server("gone", [sys.executable, "-c", "print('no')"])

    def test_figures_bear_the_name_of_the_bench(self):
        bench = Bench("x", ".", ".")
        bench.figure("y", 2.0, "ms", tolerance=1.1)
        self.assertEqual(bench.figures, [Figure("x/y", 2.0, "ms", 2.0, "lower", 1.1)])

    def test_table(self):
        self.assertEqual(table_text("T", ["a", "b"], [["x", 10], ["long", 2]]), "T\n  a      b\n  x     10\n  long   2")


class Benches(unittest.TestCase):
    def test_every_file_has_the_interface(self):
        import importlib.util

        files = sorted((pathlib.Path(__file__).resolve().parent / "benches").glob("*.py"))
        self.assertGreaterEqual(len(files), 6)
        for path in files:
            spec = importlib.util.spec_from_file_location(path.stem, path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            self.assertTrue(module.SUMMARY and "\n" not in module.SUMMARY, path)
            self.assertTrue(callable(module.run), path)

    def test_attention_bytes(self):
        from benches import all_to_all

        seen = {"attention": [{"heads": 8, "kv_heads": 2, "head_dim": 16}]}
        # q, output: 8 heads; k, v: 2 heads; 10 tokens a rank, half of each leaves; forward and backward; 4 bytes
        self.assertEqual(all_to_all.needed_bytes(seen, 1, 20, 2, 4), 2 * (8 + 8 + 2 + 2) * 16 * 5 * 4)


if __name__ == "__main__":
    unittest.main()
