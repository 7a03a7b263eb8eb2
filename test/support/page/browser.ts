import { existsSync } from 'node:fs'
import { chromium, type Browser } from 'playwright-core'
import type { Say } from '../../../deploy/local/parts.ts'
import { findOrInstall } from '../deploy/tools.ts'

/** Where systems keep the browser; CHROMIUM names another place. */
const PLACES = [
  process.env.CHROMIUM ?? '', '/usr/bin/chromium', '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]

const find = () => PLACES.find(path => path !== '' && existsSync(path))

const ADVICE = 'There is no Chromium. Install it ("apt-get install chromium"), or say in ' +
  'CHROMIUM where it is.'

/** Makes sure that there is a Chromium; installs the package of the system if need be. */
export async function requireBrowser (say: Say): Promise<void> {
  const packages = ['chromium', 'fonts-dejavu-core']
  await findOrInstall(async () => find(), { packages, advice: ADVICE, say })
}

/** A real Chromium. */
export async function openBrowser (): Promise<Browser> {
  const executablePath = find()
  if (executablePath === undefined) throw new Error(ADVICE)
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return await chromium.launch({ executablePath, args })
}
