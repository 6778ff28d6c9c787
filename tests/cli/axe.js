// SPDX-License-Identifier: Apache-2.0
// axe.js NUMBERS BROWSER PICTURE PAGE... : opens each page at three widths, light and dark, and prints per page a line of
// JSON: {page, width, scheme, violations, messages, requests, overflow, missing, raw}. axe runs in a world of its own, because the
// policy of the pages lets no script in.

const fs = require('fs');
const puppeteer = require('puppeteer-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const ask = ';axe.run().then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes[0].html.slice(0, 200)])))';

async function look(browser, path, width, scheme) {
	const page = await browser.newPage();
	const messages = [];
	let requests = 0;
	page.on('console', message => messages.push(message.text()));
	page.on('pageerror', error => messages.push(String(error)));
	page.on('request', () => requests++);
	await page.setViewport({width, height: 900});
	await page.emulateMediaFeatures([{name: 'prefers-color-scheme', value: scheme}]);
	await page.goto('file://' + path);
	if (!path.endsWith('control.html')) await page.waitForFunction(() => document.documentElement.dataset.ready, {timeout: 20000});
	await page.evaluate(() => document.querySelectorAll('details').forEach(details => { details.open = true; }));
	const overflow = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
	const raw = await page.evaluate(() => /[\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText));
	const missing = await page.evaluate(() => [...document.querySelectorAll('.missing')].map(row => row.firstChild.textContent));
	const session = await page.createCDPSession();
	const {frameTree} = await session.send('Page.getFrameTree');
	const {executionContextId} = await session.send('Page.createIsolatedWorld', {frameId: frameTree.frame.id});
	const answer = await session.send('Runtime.evaluate',
		{expression: axe + ask, contextId: executionContextId, awaitPromise: true, returnByValue: true});
	const violations = JSON.parse(answer.result.value);
	await page.close();
	return {page: path, width, scheme, violations, messages, requests, overflow, missing, raw};
}

// What a person does: by keys through the map, in the search field, without a script.
async function use(browser, path, numbers) {
	const page = await browser.newPage(), faults = [];
	const expect = (what, fine) => fine || faults.push(what);
	const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label'));
	const text = selector => page.evaluate(name => document.querySelector(name).textContent, selector);
	await page.goto('file://' + path);
	await page.waitForFunction(() => document.documentElement.dataset.ready);
	for (let i = 0; i < 30 && !await page.evaluate(() => document.activeElement.closest('.map')); i++)
		await page.keyboard.press('Tab');
	expect('root', /^all 100\.0 %/.test(await focused()));
	await page.keyboard.press('ArrowRight');
	const first = await focused();
	expect('first child', !first.startsWith('all'));
	await page.keyboard.press('ArrowDown');
	expect('second child', await focused() !== first);
	await page.keyboard.press('ArrowLeft');
	expect('parent', (await focused()).startsWith('all'));
	await page.keyboard.press('ArrowRight');
	await page.keyboard.press('Enter');
	expect('zoomed', (await text('nav')).includes('\u203a'));
	await page.keyboard.press('Escape');
	await page.keyboard.press('Escape');
	expect('zoomed out', await text('nav') === 'all');
	const click = (selector, name) => page.evaluate((selector, name) => {
		const found = [...document.querySelectorAll(selector)].find(button => button.textContent.startsWith(name));
		if (found) found.click();
		return found !== undefined;
	}, selector, name);
	await page.focus('.map [aria-label^="blocks.{0-1}"]');
	expect('each is offered', await click('.panel button', 'Show each'));
	expect('each is shown', await page.evaluate(() => [...document.querySelectorAll('.cell')].map(cell => cell.textContent).join() === 'blocks.{0-1},0,1'));
	expect('its panel', await page.evaluate(async () => {
		document.querySelectorAll('.cell')[1].focus();
		await new Promise(resolve => setTimeout(resolve, 500));
		return document.querySelector('.panel dl').textContent.includes('tensors5');
	}));
	await page.keyboard.press('Escape');
	expect('group in the table', await click('.name button', '\u25b8 blocks.{0-1}.down.weight'));
	expect('opened', await page.evaluate(() => document.querySelectorAll('.inner').length === 2 && document.activeElement.getAttribute('aria-expanded') === 'true'));
	await page.type('input[type=search]', 'bias float32');
	expect('searched', / of /.test(await text('[role=status]')));
	for (const title of ['Share', 'Size']) {
		await click('.head button', title);
		expect('sorted by ' + title, await page.evaluate(title => document.querySelector('[aria-sort=descending]')?.textContent === title, title));
	}
	await page.type('input[type=search]', ' nothing');
	expect('nothing is found', (await text('[role=status]')).startsWith('No match: 0 of '));
	const {x, y} = await page.evaluate(() => {
		const cell = document.querySelector('.map [aria-label^="blocks.{0-1}"]');
		cell.scrollIntoView();
		const {left, top} = cell.getBoundingClientRect();
		return {x: left + 40, y: top + 20};
	});
	await page.mouse.move(x, y);
	await page.mouse.click(x, y);
	await new Promise(resolve => setTimeout(resolve, 300));
	expect('the panel of the clicked cell: ' + await text('.panel b'), await text('.panel b') === 'blocks.{0-1}');
	await page.mouse.move(x + 200, y + 5);
	expect('the panel of the next cell', await text('.panel b') !== 'blocks.{0-1}');
	for (const [kind, number, shown] of numbers)
		expect(shown, await page.evaluate((kind, number) => window.formats[kind](number), kind, number) === shown);
	await page.close();
	return {page: path, faults};
}

// The panel of two checkpoints: what was changed into what, and numbers that agree with the cards. A search for errors.
async function compare(browser, path, broken) {
	const page = await browser.newPage(), faults = [];
	const expect = (what, fine) => fine || faults.push(what);
	const open = async path => {
		await page.goto('file://' + path);
		await page.waitForFunction(() => document.documentElement.dataset.ready);
		return page.evaluate(() => document.querySelector('.panel').innerText);
	};
	const root = await open(path), count = await page.evaluate(() => [...document.querySelectorAll('.cards dt')].find(name => name.textContent === 'Parameters').nextSibling.textContent);
	expect('parameters: ' + root, root.replace(/\s+/g, ' ').includes('parameters ' + count + ' missing parameters '));
	const changed = await page.evaluate(() => {
		for (const cell of document.querySelectorAll('.cell')) {
			cell.focus();
			const shown = document.querySelector('.panel').innerText.replace(/\s+/g, ' ');
			if (shown.includes('change changed')) return shown;
		}
	});
	expect('was: ' + changed, /dtype \S+ \u2192 \S+ shape \[/.test(changed));
	await open(broken);
	await page.type('input[type=search]', 'error');
	expect('errors', await page.evaluate(() => /^57 of 57|^57 tensors/.test(document.querySelector('[role=status]').textContent)));
	await page.close();
	return {page: path, faults};
}

// A recording: the length of an interval by pointer and by keys.
async function time(browser, path) {
	const page = await browser.newPage(), faults = [];
	const hint = () => page.evaluate(() => document.querySelector('.hint').textContent);
	const expect = (shown, pattern) => pattern.test(shown) || faults.push(shown);
	await page.setViewport({width: 1280, height: 900});
	await page.goto('file://' + path);
	await page.waitForFunction(() => document.documentElement.dataset.ready);
	const {left, top, label} = await page.evaluate(() => {
		const svg = document.querySelector('.timeline'), {left, top} = svg.getBoundingClientRect();
		svg.focus();
		return {left, top, label: svg.getAttribute('aria-label')};
	});
	expect(label, /^From 0\.0 µs to 5\.44 ms$/);
	await page.mouse.move(left + 200, top + 30);
	expect(await hint(), /^rank 0, steps, step 5: 2\.59 ms, from 0\.0 µs to 2\.59 ms$/);
	await page.keyboard.press('ArrowRight');
	expect(await hint(), /^rank 0, steps, step 6: /);
	await page.keyboard.press('ArrowDown');
	expect(await hint(), /^rank 0, computing: [\d.]+ ms, from /);
	await page.keyboard.press('ArrowDown');
	expect(await hint(), /^rank 0, collectives, [a-z_]+: [\d.]+ (ms|µs), from /);
	await page.keyboard.press('ArrowUp');
	expect(await hint(), /^rank 0, computing: /);
	await page.close();
	return {page: path, faults};
}

// Printed, a sheet of A4 has verdict, cards and the whole map, and no row is cut.
async function print(browser, path) {
	const page = await browser.newPage(), faults = [];
	const expect = (what, fine) => fine || faults.push(what);
	await page.goto('file://' + path);
	await page.waitForFunction(() => document.documentElement.dataset.ready);
	await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
	await page.emulateMediaType('print');
	await page.setViewport({width: 703, height: 1032});
	const printed = await page.evaluate(() => ({
		end: document.querySelector('#map').getBoundingClientRect().bottom,
		shown: ['.panel', 'input', '.top button', 'nav'].filter(name => getComputedStyle(document.querySelector(name)).display !== 'none'),
		rows: [...document.querySelectorAll('.body .row')].map(row => row.getBoundingClientRect()).map(({top, bottom}) => [top, bottom]),
		cut: [...document.querySelectorAll('.body .row *')].filter(cell => cell.clientHeight > 0 && (cell.scrollHeight > cell.clientHeight + 1 || cell.scrollWidth > cell.clientWidth + 1)).length,
	}));
	expect('the map is not on the first page: ' + printed.end, printed.end <= 1032);
	expect('controls are printed: ' + printed.shown, printed.shown.length === 0);
	expect('rows overlap', printed.rows.length > 0 && printed.rows.every((row, i) => i === 0 || row[0] >= printed.rows[i - 1][1] - 1));
	expect('rows are cut', printed.cut === 0);
	await page.close();
	return faults;
}

// Without a script all that C wrote is visible.
async function plain(browser, path) {
	const page = await browser.newPage(), faults = [];
	const expect = (what, fine) => fine || faults.push(what);
	await page.setJavaScriptEnabled(false);
	await page.goto('file://' + path);
	const shown = await page.evaluate(() => document.body.innerText);
	for (const words of ['BAD', '__1_0.distcp: missing file', '57 of 57 tensors are affected', 'Parameters', '238', '2 of 3 files', 'Fix:', 'Loaders', 'refuses', 'need JavaScript'])
		expect(words, shown.includes(words));
	expect('sections of the script are shown', !/Size by module|Ranks and files/.test(shown));
	await page.close();
	return {page: path, faults};
}

// Columns of a drawn terminal: all characters are there, and those of one column stand below each other.
async function measure(browser, path) {
	const page = await browser.newPage();
	await page.goto('file://' + path);
	const faults = await page.evaluate(() => [...document.querySelectorAll('text')].filter((text, i, all) => {
		const size = text.textContent.length, other = all[0], column = Math.min(size, other.textContent.length) - 1;
		return text.getNumberOfChars() !== size || Math.abs(text.getStartPositionOfChar(column).x - other.getStartPositionOfChar(column).x) > 0.1;
	}).map(text => text.textContent));
	await page.close();
	return {page: path, faults};
}

(async () => {
	const [numbers, executablePath, picture, ...pages] = process.argv.slice(2);
	const browser = await puppeteer.launch({executablePath, headless: true, args: ['--no-sandbox', '--disable-gpu']});
	const named = name => pages.find(path => path.endsWith(name + '.html'));
	console.log(JSON.stringify(await use(browser, pages[1], JSON.parse(numbers))));
	console.log(JSON.stringify(await time(browser, named('recording'))));
	console.log(JSON.stringify(await compare(browser, named('comparison'), named('missing'))));
	const sheets = [];
	for (const name of ['deepspeed', 'missing', 'local', 'many', 'comparison']) sheets.push(...(await print(browser, named(name))).map(fault => name + ': ' + fault));
	console.log(JSON.stringify({page: 'printed', faults: sheets}));
	console.log(JSON.stringify(await plain(browser, named('missing'))));
	console.log(JSON.stringify(await measure(browser, picture)));
	for (const page of pages)
		for (const width of [360, 768, 1280])
			for (const scheme of ['light', 'dark'])
				console.log(JSON.stringify(await look(browser, page, width, scheme)));
	await browser.close();
})().catch(error => {
	console.error(String(error));
	process.exit(1);
});
