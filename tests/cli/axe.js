// SPDX-License-Identifier: Apache-2.0
// axe.js BROWSER PAGE... : opens each page at three widths, light and dark, and prints per page a line of
// JSON: {page, width, scheme, violations, messages, requests, overflow}. axe runs in a world of its own, because the
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
	const overflow = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
	const session = await page.createCDPSession();
	const {frameTree} = await session.send('Page.getFrameTree');
	const {executionContextId} = await session.send('Page.createIsolatedWorld', {frameId: frameTree.frame.id});
	const answer = await session.send('Runtime.evaluate',
		{expression: axe + ask, contextId: executionContextId, awaitPromise: true, returnByValue: true});
	const violations = JSON.parse(answer.result.value);
	await page.close();
	return {page: path, width, scheme, violations, messages, requests, overflow};
}

(async () => {
	const [executablePath, ...pages] = process.argv.slice(2);
	const browser = await puppeteer.launch({executablePath, headless: true, args: ['--no-sandbox', '--disable-gpu']});
	for (const page of pages)
		for (const width of [360, 768, 1280])
			for (const scheme of ['light', 'dark'])
				console.log(JSON.stringify(await look(browser, page, width, scheme)));
	await browser.close();
})().catch(error => {
	console.error(String(error));
	process.exit(1);
});
