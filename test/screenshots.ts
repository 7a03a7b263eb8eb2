import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Command } from 'commander'
import type { StackState } from '../deploy/local/launcher/state.ts'
import { runCommand } from './support/admin.ts'
import { openBrowser, requireBrowser } from './support/page/browser.ts'
import { signIn } from './support/page/page.ts'
import { root } from './support/sources.ts'

const FILE = 'deploy/docs/images/workspace-page.png'
/** Beyond that it would slow down the page that shows it. */
const MAX_BYTES = 150 * 1_024
const SIZE = { width: 1_400, height: 900 }
const say = (line: string) => console.log(`screenshots: ${line}`)

new Command('screenshots')
  .description(`Takes ${FILE} from the running stack, with a job of the sample. Needs ` +
    'Chromium, and "npm start" in another terminal.')
  .parse()

function readState (): StackState {
  try {
    return JSON.parse(readFileSync(join(root, '.local/stack.json'), 'utf8')) as StackState
  } catch {
    throw new Error('there is no .local/stack.json: start the stack with "npm start" first')
  }
}

const { pageUrl, orgId } = readState()
await requireBrowser(say)
const browser = await openBrowser()
try {
  const page = await browser.newPage({ viewport: SIZE, colorScheme: 'light', locale: 'en-US' })
  const words = ['--data', join(root, '.local'), '--json', 'sign-in', '--org', orgId]
  await signIn(page, (JSON.parse(await runCommand(words)) as { readonly url: string }).url)
  await page.goto(`${pageUrl}/live/jobs`)
  await page.locator('th a').last().click()
  await page.waitForLoadState()
  await page.screenshot({ path: join(root, FILE) })
  const { size } = statSync(join(root, FILE))
  if (size > MAX_BYTES) throw new Error(`${FILE} has ${size} bytes, more than ${MAX_BYTES}`)
  say(`${FILE}, ${size} bytes`)
} finally {
  await browser.close()
}
