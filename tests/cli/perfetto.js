// SPDX-License-Identifier: Apache-2.0
// perfetto.js FOLDER TRACE QUERY... : lets Perfetto's trace processor read a trace and prints the rows of each query as
// a line of JSON. FOLDER is that of Perfetto's UI: its engine_bundle.js is made for a worker of a browser, and finds
// here what it asks of one. Requests and replies are messages of perfetto/trace_processor/trace_processor.proto.

const fs = require('fs');
const path = require('path');

// Fields of TraceProcessorRpc, of QueryResult and of its cells.
const METHOD = {append: 1, finalize: 2, query: 3};
const RPC = {seq: 1, request: 2, append: 101, query: 103, result: 203, appended: 201};
const RESULT = {column: 1, error: 2, batch: 3};
const CELLS = {kinds: 1, integers: 2, doubles: 3, texts: 5};
const KIND = {integer: 2, double: 3, text: 4};

// ---- protobuf

function varint(number) {
	const bytes = [];
	for (number = BigInt(number); number > 127n; number >>= 7n)
		bytes.push(Number(number & 127n) | 128);
	return Buffer.from([...bytes, Number(number)]);
}

const integerField = (id, number) => Buffer.concat([varint(id << 3), varint(number)]);
const bytesField = (id, bytes) => Buffer.concat([varint(id << 3 | 2), varint(bytes.length), bytes]);

function takeVarint(bytes, at) {
	for (let number = 0n, shift = 0n;; shift += 7n) {
		const byte = bytes[at++];
		number |= BigInt(byte & 127) << shift;
		if (byte < 128)
			return [number, at];
	}
}

function* fields(bytes) {
	for (let at = 0, tag, size; at < bytes.length;) {
		[tag, at] = takeVarint(bytes, at);
		[size, at] = takeVarint(bytes, at);
		if ((tag & 7n) === 0n)
			yield [Number(tag >> 3n), size];
		else if ((tag & 7n) === 2n)
			yield [Number(tag >> 3n), bytes.subarray(at, at += Number(size))];
		else
			throw new Error(`wire type ${tag & 7n}`);
	}
}

function* varints(bytes) {
	for (let at = 0, number; at < bytes.length;) {
		[number, at] = takeVarint(bytes, at);
		yield number;
	}
}

// ---- the engine

// Calls back with each reply.
async function start(folder, reply) {
	const bytesOf = name => {
		const bytes = fs.readFileSync(path.join(folder, path.basename(String(name))));
		return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
	};
	const self = {location: {href: 'file:///engine_bundle.js'}};
	const worker = {
		self,
		process: undefined,
		WorkerGlobalScope: class {},
		importScripts() {},
		console: {log() {}, warn() {}, error: console.error},
		fetch: async name => ({ok: true, arrayBuffer: async () => bytesOf(name)}),
		XMLHttpRequest: class {
			open(method, name) { this.name = name; }
			send() { this.response = bytesOf(this.name); }
		},
	};
	self.self = self;
	new Function(...Object.keys(worker), fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'))(
		...Object.values(worker));
	const port = {
		postMessage(bytes) {
			for (const [, message] of fields(Buffer.from(bytes)))
				reply(message);
		},
	};
	self.onmessage({data: port});
	// The module is ready when a request is answered; until then it throws.
	for (let tries = 0;; tries++) {
		await new Promise(done => setTimeout(done, 50));
		try {
			const select = bytesField(RPC.query, bytesField(1, Buffer.from('select 1')));
			const message = Buffer.concat([integerField(RPC.seq, 1), integerField(RPC.request, METHOD.query), select]);
			port.onmessage({data: new Uint8Array(bytesField(1, message))});
			return port;
		} catch (error) {
			if (tries === 200)
				throw error;
		}
	}
}

// ---- rows

function takeCells(bytes, cells) {
	const kinds = [], integers = [], doubles = [];
	let texts = [];
	for (const [id, value] of fields(bytes)) {
		if (id === CELLS.kinds)
			kinds.push(...varints(value));
		if (id === CELLS.integers)
			integers.push(...varints(value));
		if (id === CELLS.doubles)
			for (let at = 0; at < value.length; at += 8)
				doubles.push(value.readDoubleLE(at));
		if (id === CELLS.texts)
			texts = value.toString().split('\0');
	}
	for (const kind of kinds.map(Number))
		cells.push(kind === KIND.integer ? Number(BigInt.asIntN(64, integers.shift())) :
			kind === KIND.double ? doubles.shift() : kind === KIND.text ? texts.shift() : null);
}

function rowsOf(replies) {
	const columns = [], cells = [], rows = [];
	for (const reply of replies)
		for (const [id, result] of fields(reply))
			for (const [what, value] of id === RPC.result ? fields(result) : []) {
				if (what === RESULT.column)
					columns.push(value.toString());
				if (what === RESULT.error)
					throw new Error(value.toString());
				if (what === RESULT.batch)
					takeCells(value, cells);
			}
	while (cells.length)
		rows.push(Object.fromEntries(columns.map(name => [name, cells.shift()])));
	return rows;
}

(async () => {
	const [folder, trace, ...queries] = process.argv.slice(2);
	const replies = [];
	const port = await start(folder, message => replies.push(message));
	let seq = 1;
	const ask = (method, ...extra) => {
		const message = [integerField(RPC.seq, ++seq), integerField(RPC.request, method), ...extra];
		port.onmessage({data: new Uint8Array(bytesField(1, Buffer.concat(message)))});
	};
	ask(METHOD.append, bytesField(RPC.append, fs.readFileSync(trace)));
	ask(METHOD.finalize);
	for (const query of queries) {
		replies.length = 0;
		ask(METHOD.query, bytesField(RPC.query, bytesField(1, Buffer.from(query))));
		console.log(JSON.stringify(rowsOf(replies)));
	}
})().catch(error => {
	console.error(String(error.stack).slice(-1000));
	process.exit(1);
});
