# SPDX-License-Identifier: Apache-2.0
"""`spscope debug --dap` as an editor uses it, one session after the other. Every message is held against the published schema where
that is installed (client.py). dap_test.py SPSCOPE [CLASS...]"""

import json
import pathlib
import re
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from client import Client

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "resources/samples/llama_gqa.pt2")
PROGRAM = ""
PYTHON = {"path": "/home/somebody/llama/modeling_llama.py"}  # that end of the path is what counts


class Breakpoints(unittest.TestCase):
    def test_lines_of_python_and_of_the_program(self):
        with Client(PROGRAM) as c:
            _, answers = c.begin(MODEL, [("setBreakpoints", {"source": PYTHON, "breakpoints": [{"line": 249}, {"line": 248}, {"line": 100000}]})], seq=64, dtype="float64")
            one, two, none = answers[0]["breakpoints"]
            self.assertTrue(one["verified"] and two["verified"])
            self.assertEqual(one["line"], 249)
            self.assertFalse(none["verified"])
            self.assertIn("100000", none["message"])
            stop = c.go()
            self.assertEqual(stop["reason"], "breakpoint")
            frames = c.ask("stackTrace", threadId=1)["stackFrames"]
            self.assertIn(249, [f["line"] for f in frames if f["source"]["name"] == "modeling_llama.py"])
            # A line is entered once a layer and phase, not once a node.
            layers = [re.search(r"layers\.(\d)", frames[1]["name"])[1]]
            c.ask("setBreakpoints", {"source": PYTHON, "breakpoints": [{"line": 249}]})
            c.go()
            frames = c.ask("stackTrace", threadId=1)["stackFrames"]
            layers.append(re.search(r"layers\.(\d)", frames[1]["name"])[1])
            self.assertEqual(layers, ["0", "1"])
            # The top frame is a line of the program's text: a breakpoint there, further on.
            top = frames[0]
            self.assertGreater(top["source"]["sourceReference"], 0)
            text = c.ask("source", source=top["source"], sourceReference=top["source"]["sourceReference"])["content"].split("\n")
            name = re.match(r"%(\S+) = ", top["name"])[1]
            self.assertTrue(text[top["line"] - 1].strip().startswith(f"%{name} = "), text[top["line"] - 1])
            line = next(i for i, t in enumerate(text, 1) if i > top["line"] and "scaled_dot_product" in t)
            c.ask("setBreakpoints", {"source": PYTHON, "breakpoints": []})
            # Lines without a node: the next one that has one.
            answer = c.ask("setBreakpoints", {"source": top["source"], "breakpoints": [{"line": line}, {"line": 1}, {"line": len(text) + 5}]})["breakpoints"]
            first = next(i for i, t in enumerate(text, 1) if " = aten." in t or " = sp." in t)
            self.assertEqual([b["verified"] for b in answer], [True, True, False])
            self.assertEqual([answer[0]["line"], answer[1]["line"]], [line, first])
            stop = c.go()
            self.assertEqual(stop["hitBreakpointIds"], [answer[0]["id"]])
            self.assertEqual(c.ask("stackTrace", threadId=2, levels=1)["stackFrames"][0]["line"], line)
            self.assertIn({"line": line}, c.ask("breakpointLocations", source=top["source"], line=line - 3, endLine=line + 3)["breakpoints"])
            self.assertEqual(c.ask("breakpointLocations", source=PYTHON, line=249)["breakpoints"], [{"line": 249}])
            older = c.ask("setBreakpoints", {"source": top["source"], "lines": [line]})["breakpoints"]
            self.assertEqual([b["line"] for b in older], [line])
            # A Source may come back by its name alone.
            again = c.ask("setBreakpoints", {"source": {"name": top["source"]["name"]}, "breakpoints": [{"line": line}]})["breakpoints"]
            self.assertTrue(again[0]["verified"])
            self.assertEqual(c.end(), 0)

    def test_functions_conditions_counts_and_messages(self):
        with Client(PROGRAM) as c:
            wanted = {"breakpoints": [{"name": "op *scaled_dot_product*", "hitCondition": ">= 2"}, {"name": "aten.embedding*"}, {"name": "no_such_thing"}, {"name": "any", "condition": "abs>"}]}
            _, answers = c.begin(MODEL, [("setFunctionBreakpoints", wanted), ("setExceptionBreakpoints", {"filters": [], "filterOptions": [{"filterId": "ranks"}, {"filterId": "differs", "condition": ">0.5 rank 1"}]})],
                                 seq=64, dtype="float64")
            self.assertEqual([b["verified"] for b in answers[0]["breakpoints"]], [True, True, False, False])
            self.assertEqual([b["verified"] for b in answers[1]["breakpoints"]], [True, True])
            self.assertIn("no_such_thing", answers[0]["breakpoints"][2]["message"])
            stop = c.go()
            self.assertEqual((stop["reason"], stop["hitBreakpointIds"]), ("function breakpoint", [answers[0]["breakpoints"][1]["id"]]))
            self.assertIn("aten.embedding", c.ask("stackTrace", threadId=1, levels=1)["stackFrames"][0]["name"])
            # A message at a line is written and does not stop; values in braces are looked up.
            log = c.ask("setBreakpoints", {"source": PYTHON, "breakpoints": [{"line": 249, "logMessage": "ids begin with {%input_ids[0,0]}, {nonsense}"}]})["breakpoints"]
            stop = c.go()
            self.assertEqual(stop["hitBreakpointIds"], [answers[0]["breakpoints"][0]["id"]])
            said = c.event("output")
            self.assertRegex(said["output"], r"^ids begin with \d+, \{nonsense: there is no value nonsense\}\n$")
            self.assertEqual(said["line"], log[0]["line"])
            self.assertIn("there is no filter zzz", c.refused("setExceptionBreakpoints", filters=["zzz"]))
            # What is sent again as it was keeps its number.
            again = c.ask("setFunctionBreakpoints", {"breakpoints": [{"name": "aten.embedding*"}]})["breakpoints"]
            self.assertEqual(again[0]["id"], answers[0]["breakpoints"][1]["id"])
            self.assertEqual(c.end(), 0)

    def test_an_exception_is_a_value_that_should_not_be(self):
        with tempfile.TemporaryDirectory() as folder, Client(PROGRAM) as c:
            # No label counts: the mean of nothing is 0 / 0.
            tensors = {"input_ids": [1] * 64, "labels": [-100] * 64, "position_ids": list(range(64))}
            head = json.dumps({n: {"dtype": "I64", "shape": [1, 64], "data_offsets": [i * 512, i * 512 + 512]} for i, n in enumerate(tensors)}).encode()
            batch = pathlib.Path(folder) / "batch.safetensors"
            batch.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(struct.pack("<64q", *v) for v in tensors.values()))
            _, answers = c.begin(MODEL, [("setExceptionBreakpoints", {"filters": ["nan", "inf"]})], seq=64, inputs=str(batch))
            stop = c.go()
            self.assertEqual((stop["reason"], stop["hitBreakpointIds"]), ("exception", [answers[0]["breakpoints"][0]["id"]]))
            self.assertIn("are NaN", stop["text"])
            info = c.ask("exceptionInfo", threadId=stop["threadId"])
            self.assertEqual((info["exceptionId"], info["breakMode"], info["details"]["message"]), ("nan", "always", stop["text"]))
            frame = c.ask("stackTrace", threadId=stop["threadId"], levels=1)["stackFrames"][0]["id"]
            value = c.ask("evaluate", expression=info["details"]["evaluateName"], frameId=frame, context="hover")
            self.assertIn("NaN 1", value["result"])
            c.go("stepBack")
            self.assertIn("did not stop for an exception", c.refused("exceptionInfo", threadId=1))
            self.assertEqual(c.end(), 0)

    def test_breakpoints_of_the_console(self):
        with Client(PROGRAM, "--sp", "4") as c:
            c.begin(MODEL, seq=64)
            threads = c.ask("threads")["threads"]
            self.assertEqual([t["name"] for t in threads], ["rank 0", "rank 1", "rank 2", "rank 3"])
            c.ask("evaluate", expression="break any if zeros>0.2", context="repl")
            stop = c.go()
            self.assertEqual(stop["reason"], "breakpoint")
            self.assertIn("of its elements are zero", stop["description"])
            c.ask("evaluate", expression="delete all", context="repl")
            self.assertEqual(c.end(), 0)


class Control(unittest.TestCase):
    def test_steps_forward_and_back(self):
        with Client(PROGRAM) as c:
            stop, _ = c.begin(MODEL, seq=64, dtype="float64", sp=2)
            self.assertEqual((stop["reason"], stop["threadId"], stop["allThreadsStopped"]), ("entry", 1, True))
            top = lambda thread=1: c.ask("stackTrace", threadId=thread, levels=1)["stackFrames"][0]
            first = top()["line"]
            self.assertEqual(c.go("stepIn")["reason"], "step")
            self.assertEqual((top(1)["line"], top(2)["line"]), (first + 1, first + 1))
            c.go("stepIn", threadId=2, singleThread=True)
            self.assertEqual((top(1)["line"], top(2)["line"]), (first + 1, first + 2))
            c.go("stepBack")
            self.assertEqual((top(1)["line"], top(2)["line"]), (first + 1, first + 1))
            # A statement is what a line of Python became; a module ends where another begins.
            source = lambda: [(f["source"]["name"], f["line"]) for f in c.ask("stackTrace", threadId=1)["stackFrames"][1:2]]
            before = source()
            c.go("next")
            self.assertNotEqual(source(), before)
            line = top()["line"]
            c.go("next", granularity="instruction")
            self.assertEqual(top()["line"], line + 1)
            c.ask("setFunctionBreakpoints", {"breakpoints": [{"name": "module *layers.0.self_attn"}]})
            c.go()
            c.ask("setFunctionBreakpoints", {"breakpoints": []})
            module = c.ask("stackTrace", threadId=1)["stackFrames"][1]["name"]
            self.assertIn("layers.0.self_attn", module)
            c.go("stepOut")
            inside = re.search(r"in (\S+)", module)[1]
            self.assertNotRegex(c.ask("stackTrace", threadId=1)["stackFrames"][1]["name"], rf"in {re.escape(inside)}\b")
            # To a line of the program, ahead and behind.
            program = top()["source"]
            for way in (30, -20):
                line = top()["line"] + way
                target = c.ask("gotoTargets", source=program, line=line)["targets"][0]
                self.assertEqual(target["line"], line)
                self.assertEqual(c.go("goto", targetId=target["id"])["reason"], "goto")
                self.assertEqual(top()["line"], line)
            # Back to the last place that a breakpoint stands at, then to the beginning.
            c.ask("setBreakpoints", {"source": program, "breakpoints": [{"line": first + 5}]})
            self.assertEqual(c.go("reverseContinue")["reason"], "breakpoint")
            self.assertEqual(top()["line"], first + 5)
            self.assertEqual(c.go("reverseContinue")["reason"], "entry")
            self.assertEqual(top()["line"], first)
            self.assertEqual(c.end(), 0)

    def test_back_to_a_condition_on_values(self):
        with Client(PROGRAM) as c:
            c.begin(MODEL, seq=64, dtype="float64")
            top = lambda: c.ask("stackTrace", threadId=1, levels=1)["stackFrames"][0]["line"]
            c.ask("setFunctionBreakpoints", {"breakpoints": [{"name": "op aten.mul*", "condition": "abs>0.5"}]})
            places = []
            for _ in range(3):
                c.go()
                places.append(top())
            self.assertEqual(c.go("reverseContinue")["reason"], "breakpoint")
            self.assertEqual(top(), places[1])
            self.assertEqual(c.go("reverseContinue")["reason"], "breakpoint")
            self.assertEqual(top(), places[0])
            self.assertEqual(c.end(), 0)

    def test_what_runs_can_be_paused_and_the_end_is_a_place_to_look(self):
        with Client(PROGRAM) as c:
            c.begin(MODEL, dtype="float64", sp=2, seq=512, initialize={"supportsProgressReporting": True})
            c.ask("continue", threadId=1)
            c.ask("pause", threadId=1)
            stop = c.event("stopped")
            self.assertIn(stop["reason"], ("pause", "step"))  # step: it was over before
            self.assertEqual(c.ask("continue", threadId=1)["allThreadsContinued"], True)
            if stop["reason"] == "pause":
                stop = c.event("stopped")
                self.assertIn("the step is over", stop["description"])
            self.assertEqual(c.ask("stackTrace", threadId=1)["stackFrames"][0]["name"], "the end of the step")
            self.assertEqual(c.ask("restart"), {})
            self.assertEqual(c.event("stopped")["reason"], "entry")
            self.assertIn("nothing is wrong", c.ask("evaluate", expression="wrong", context="repl")["result"])
            starts = [c.event("progressStart"), c.event("progressStart")]
            self.assertEqual([s["title"] == "evaluate" for s in starts], [False, True])
            self.assertEqual([s["cancellable"] for s in starts], [True, False])
            self.assertEqual([c.event("progressEnd")["progressId"] for _ in starts], [s["progressId"] for s in starts])
            # The console's continue runs as the editor's does.
            self.assertEqual(c.ask("evaluate", expression="continue", context="repl")["result"], "")
            self.assertEqual(c.event("continued"), {"threadId": 1, "allThreadsContinued": True})
            self.assertIn("the step is over", c.event("stopped")["description"])
            c.ask("continue", threadId=1)  # at the end: that is all
            self.assertEqual([c.event("thread")["reason"] for _ in range(4)], ["started", "started", "exited", "exited"])
            self.assertEqual(c.event("exited"), {"exitCode": 0})
            c.event("terminated")
            self.assertIn("the session is over", c.refused("threads"))
            c.ask("terminate")
            c.event("terminated")
            self.assertEqual(c.end(), 0)


class Values(unittest.TestCase):
    def test_scopes_variables_and_the_console(self):
        with Client(PROGRAM) as c:
            c.begin(MODEL, seq=64, dtype="float64", initialize={"supportsVariableType": True})
            c.ask("setFunctionBreakpoints", {"breakpoints": [{"name": "op *scaled_dot_product*"}]})
            c.go()
            frame = c.ask("stackTrace", threadId=2)["stackFrames"][0]
            scopes = {s["name"].split(" of ")[0]: s for s in c.ask("scopes", frameId=frame["id"])["scopes"]}
            self.assertEqual(set(scopes), {"Operands", "Results just computed", "Live values", "Inputs", "Parameters"})
            look = lambda reference, **page: c.ask("variables", variablesReference=reference, **page)["variables"]
            operands = {v["name"]: v for v in look(scopes["Operands"]["variablesReference"])}
            self.assertIn("query", operands)
            self.assertRegex(operands["query"]["value"], r"^%[\w.]+: float64 \[1, \d+, 64, \d+\] min ")
            self.assertIn("sharded", operands["query"]["type"])
            figures = {v["name"]: v for v in look(operands["query"]["variablesReference"])}
            self.assertEqual(figures["NaN"]["value"], "0")
            shape = json.loads(figures["shape"]["value"])
            whole = json.loads(figures["whole shape"]["value"])
            self.assertEqual(whole[1], 2 * shape[1])  # heads are cut where attention is
            # Elements a page at a time, down to numbers; a number's name can be evaluated.
            rows = figures["elements"]
            self.assertEqual(rows["indexedVariables"], shape[0])
            for size in shape[1:]:
                rows = look(rows["variablesReference"])[0]
                self.assertEqual(rows["indexedVariables"], size)
            page = look(rows["variablesReference"], start=2, count=3)
            self.assertEqual([v["name"] for v in page], ["[2]", "[3]", "[4]"])
            name = operands["query"]["value"].split(":")[0]
            self.assertEqual(page[0]["evaluateName"], f"{name}[0,0,0,2]")
            value = c.ask("evaluate", expression=page[0]["evaluateName"], frameId=frame["id"], context="watch")
            self.assertEqual(value["result"], page[0]["value"])
            verdict = {v["name"]: v["value"] for v in look(figures["difference from unsharded"]["variablesReference"])}
            self.assertIn(verdict["verdict"], ("equal", "equal within the tolerance"))
            self.assertTrue(look(figures["why"]["variablesReference"]))
            other = look(figures["rank 0"]["variablesReference"])
            self.assertEqual(other[0]["value"], figures["shape"]["value"])
            self.assertEqual(len(look(scopes["Live values"]["variablesReference"], start=1, count=2)), 2)
            self.assertEqual(len(look(scopes["Live values"]["variablesReference"])), scopes["Live values"]["namedVariables"])
            # Hovering and watching only look.
            self.assertEqual(c.ask("evaluate", expression=name, frameId=frame["id"], context="hover")["type"], operands["query"]["type"])
            self.assertIn("there is no value hidden_states", c.refused("evaluate", expression="hidden_states", frameId=frame["id"], context="hover"))
            self.assertIn("for the console", c.refused("evaluate", expression="step", frameId=frame["id"], context="watch"))
            self.assertIn("EQUAL", c.ask("evaluate", expression=f"diff {name}", context="watch")["result"])
            self.assertIn("no command contineu", c.refused("evaluate", expression="contineu", context="repl"))
            self.assertIn("outside", c.refused("evaluate", expression=f"{name}[9999]", context="watch"))
            # The console moves the ranks, and says so.
            c.ask("evaluate", expression="step 3", context="repl")
            self.assertEqual(c.event("stopped")["reason"], "step")
            self.assertIn("they end when a rank moves", c.refused("variables", variablesReference=scopes["Operands"]["variablesReference"]))
            items = c.ask("completions", text="print %inp", column=11)["targets"]
            self.assertIn("%input_ids", [i["label"] for i in items])
            self.assertEqual((items[0]["start"], items[0]["length"]), (6, 4))
            self.assertEqual(c.end(), 0)


class Hostile(unittest.TestCase):
    def test_what_is_no_message_is_answered_and_the_session_goes_on(self):
        with Client(PROGRAM, check=False) as c:
            framed = lambda body: b"Content-Length: %d\r\n\r\n" % len(body) + body
            wrong = [b"nonsense\r\n\r\n", framed(b"{"), framed(b"[]"), framed(b"\xff\xfe"), framed(b'{"seq":"x","type":"request","command":"threads"}'),
                     framed(b'{"seq":1,"type":"response","command":"threads"}'), framed(b'{"seq":1,"type":"request"}'), framed(b'{"seq":1,"type":"request","command":"initialize","arguments":[1]}'),
                     framed(b"[" * 100000), b"Content-Length: 99999999999999999999\r\n\r\n", b"Content-Length: -1\r\n\r\n", b"X: 1\r\n\r\n", b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
                     b"Content-Length: 20000000\r\n\r\n" + b"x" * 20000000, b"y" * 10000 + b"\n"]
            for data in wrong:
                c.raw(data)
                answer = c.receive()
                self.assertEqual((answer["type"], answer["success"]), ("response", False), data[:60])
                self.assertIn(answer["message"], ("dap-frame", "dap-message"))
                self.assertIn("initialize comes first", c.refused("threads"))  # a message that is one is understood right behind it
            self.assertIn("there is no request fly", c.refused("fly"))
            self.assertIn("supportsStepBack", c.ask("initialize", adapterID="x"))
            self.assertIn("it was said before", c.refused("initialize", adapterID="x"))
            self.assertIn("launch comes first", c.refused("stackTrace", threadId=1))
            self.assertIn("program is missing", c.refused("launch", {}))
            self.assertIn("nothing.pt2", c.refused("launch", {"program": "/nothing.pt2"}))
            self.assertIn("seq", c.refused("launch", {"program": MODEL, "seq": "many"}))
            self.assertIn("stopOnEntry", c.refused("launch", {"program": MODEL, "stopOnEntry": 3}))
            # After all that it still works.
            c.ask("launch", {"program": MODEL, "stopOnEntry": True, "seq": 64, "threads": 1, "seqq": 3, "__private": {}, "preLaunchTask": "x"})
            self.assertRegex(c.event("output")["output"], "seqq means nothing|seqq .is seq meant")
            c.event("initialized")
            self.assertIn("configurationDone comes first", c.refused("continue", threadId=1))
            c.ask("configurationDone")
            c.event("stopped")
            for command, arguments, text in [("stackTrace", {"threadId": 9}, "no thread 9"), ("stackTrace", {}, "threadId is missing"), ("stackTrace", {"threadId": "1"}, "no whole number"), ("scopes", {"frameId": 1 << 40}, "no frame"),
                                             ("variables", {"variablesReference": -1}, "no variablesReference"), ("source", {"sourceReference": 77}, "no sourceReference"), ("goto", {"threadId": 1, "targetId": 5}, "no target"),
                                             ("setBreakpoints", {"source": {}}, "neither path"), ("setBreakpoints", {"source": PYTHON, "breakpoints": [1]}, "no object"), ("launch", {"program": MODEL}, "launched before"),
                                             ("continue", {"threadId": 1, "singleThread": "yes"}, "neither true nor false"), ("completions", {"text": 3, "column": 1}, "no text")]:
                self.assertIn(text, c.refused(command, arguments), command)
            self.assertEqual(c.end(), 0)

    def test_the_end_of_the_stream_ends_the_program(self):
        for when in range(3):
            with Client(PROGRAM) as c:
                if when > 0:
                    c.ask("initialize", adapterID="x")
                if when > 1:
                    c.send("launch", program=MODEL, threads=1)  # in the middle of compiling
                c.process.stdin.close()
                self.assertEqual(c.process.wait(60), 0)

    def test_a_launch_can_be_cancelled(self):
        with Client(PROGRAM) as c:
            c.ask("initialize", adapterID="x")
            # Both at once: on a slow machine it could be over before a second write.
            messages = [json.dumps({"seq": c.seq + 1, "type": "request", "command": "launch", "arguments": {"program": MODEL, "threads": 1}}),
                        json.dumps({"seq": c.seq + 2, "type": "request", "command": "cancel", "arguments": {"requestId": c.seq + 1}})]
            c.seq += 2
            c.raw(b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(m), m.encode()) for m in messages))
            answer = c.answer(c.seq - 1)
            self.assertEqual((answer["success"], answer["message"]), (False, "cancelled"))
            self.assertTrue(c.answer(c.seq)["success"])
            self.assertIn("launch comes first", c.refused("threads"))
            c.ask("launch", program=MODEL, threads=1, stopOnEntry=True, seq=64)  # and begun again
            self.assertEqual(c.end(), 0)

    def test_standard_output_is_the_protocols(self):
        for flags, text in ((["--json", "-"], b"standard output for itself"), (["--commands", "x"], b"one of them"), (["--sp", "x"], b"--sp")):
            with Client(PROGRAM, *flags) as c:
                self.assertEqual(c.process.wait(60), 2)
                if flags[0] != "--json":  # which asks for an object there
                    self.assertIsNone(c.receive())
                c.wait_errors()
                self.assertIn(text, c.stderr)

    def test_python_files_are_found_by_the_ends_of_their_paths(self):
        with tempfile.TemporaryDirectory() as folder, Client(PROGRAM, MODEL, cwd=folder) as c:
            file = pathlib.Path(folder) / "lib/models/llama/modeling_llama.py"
            file.parent.mkdir(parents=True)
            file.write_text("# a copy\n" * 500)
            c.ask("initialize", adapterID="x", linesStartAt1=False)
            c.ask("launch", stopOnEntry=True, seq=64, threads=1, sourceFolders=["lib"])
            c.event("initialized")
            sources = {s["name"]: s for s in c.ask("loadedSources")["sources"]}
            self.assertEqual(sources["modeling_llama.py"]["path"], str(file.resolve()))
            self.assertNotIn("presentationHint", sources["modeling_llama.py"])
            self.assertGreater(sources["llama_gqa.rank0.graph"]["sourceReference"], 0)
            answer = c.ask("setBreakpoints", {"source": {"path": str(file)}, "breakpoints": [{"line": 248}]})["breakpoints"][0]
            self.assertEqual((answer["verified"], answer["line"]), (True, 248))  # 249 where lines are counted from 1
            c.ask("configurationDone")
            c.event("stopped")
            c.go()
            lines = [f["line"] for f in c.ask("stackTrace", threadId=1)["stackFrames"] if f["source"].get("path") == str(file.resolve())]
            self.assertIn(248, lines)
            self.assertEqual(c.end(), 0)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
