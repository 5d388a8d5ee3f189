// Uses the playground in Chromium and prints what is to be seen, as JSON. Request on stdin: {browser, modules, page,
// pictures (a folder or null)}. serve_test.py judges.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const request = JSON.parse(fs.readFileSync(0, "utf8"));
const { chromium } = createRequire(path.join(request.modules, "x"))("playwright-core");
const LOOKS = {
  light: { viewport: { width: 1280, height: 900 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 900 }, colorScheme: "dark" },
  phone: { viewport: { width: 375, height: 740 }, colorScheme: "light", deviceScaleFactor: 2, isMobile: true, hasTouch: true },
};
const answer = { problems: [], foreign: [], looks: {} };
let expected = false;  // an answer that is no success, which the browser logs

// Runs in the page.
function measure() {
  const light = (colour) => {  // relative luminance as WCAG defines it
    const parts = colour.match(/[\d.]+/g).slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const body = getComputedStyle(document.body), background = light(body.backgroundColor), text = light(body.color);
  return {
    page_width: document.documentElement.scrollWidth, window_width: innerWidth,
    contrast: (Math.max(background, text) + 0.05) / (Math.min(background, text) + 0.05),
  };
}

async function use(page) {
  await page.fill("#prompt", "Hello <b>there</b>");
  await page.fill("#temperature", "0");
  await page.fill("#max_tokens", "40");
  await page.click("#go");
  await page.waitForSelector("body[data-running=no]");
  answer.made = await page.locator("#made").evaluate((element) => element.textContent);
  answer.given = await page.locator("#given").evaluate((element) => element.textContent);
  answer.status = await page.locator("#status").innerText();
  answer.model = await page.locator("#model").innerText();
  answer.bars = await page.locator("#bars rect").count();
  answer.labels = await page.locator("#ranks svg text").allTextContents();
  answer.points = await page.locator("#line polyline").evaluate((line) => line.points.length);
}

const browser = await chromium.launch({ executablePath: request.browser, args: ["--no-sandbox"] });
for (const [name, look] of Object.entries(LOOKS)) {
  const page = await (await browser.newContext(look)).newPage();
  page.on("console", (message) => { if (["error", "warning"].includes(message.type()) && !expected) answer.problems.push(message.text()); });
  page.on("pageerror", (error) => answer.problems.push(String(error)));
  page.on("request", (it) => { if (!it.url().startsWith(request.page) && !it.url().startsWith("data:")) answer.foreign.push(it.url()); });
  page.setDefaultTimeout(100000);  // of each step; other programs may have the cores
  await page.goto(request.page);
  await use(page);
  answer.looks[name] = await page.evaluate(measure);
  if (request.pictures) await page.screenshot({ path: path.join(request.pictures, `playground-${name}.png`), fullPage: true });
  if (name !== "light") continue;
  await page.locator("#max_tokens").evaluate((input) => { input.max = "1000000"; });
  await page.fill("#max_tokens", "900000");
  await page.click("#go");
  await page.waitForFunction(() => document.body.dataset.running === "yes" && document.getElementById("made").textContent.length > 20);
  await page.click("#halt");
  await page.waitForSelector("body[data-running=no]");
  answer.stopped = await page.locator("#status").innerText();
  expected = true;
  await page.locator("#max_tokens").evaluate((input) => { input.max = "100000000"; });
  await page.fill("#max_tokens", "90000000");
  await page.click("#go");
  await page.waitForSelector("body[data-running=no]");
  answer.refused = await page.locator("#status").innerText();
  expected = false;
}
await browser.close();
console.log(JSON.stringify(answer));
