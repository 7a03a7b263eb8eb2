import { existsSync } from 'node:fs'
import { chromium, type Browser } from 'playwright-core'
import type { Say } from '../../../deploy/local/parts.ts'
import { installPackages } from '../deploy/system-tools.ts'

/** Where systems keep the browser; CHROMIUM names another place. */
const PLACES = [
  process.env.CHROMIUM ?? '', '/usr/bin/chromium', '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]

const find = () => PLACES.find(path => path !== '' && existsSync(path))

const ADVICE = 'There is no Chromium. Install it ("apt-get install chromium"), or say in ' +
  'CHROMIUM where it is.'

/**
 * Makes sure that there is a Chromium; installs the package of the system if need be. Throws with
 * what to do where it can't be had.
 */
export async function requireBrowser (say: Say): Promise<void> {
  if (find() !== undefined) return
  await installPackages({ packages: ['chromium', 'fonts-dejavu-core'], advice: ADVICE, say })
  if (find() === undefined) throw new Error(ADVICE)
}

/** A real Chromium. */
export async function openBrowser (): Promise<Browser> {
  const executablePath = find()
  if (executablePath === undefined) throw new Error(ADVICE)
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return await chromium.launch({ executablePath, args })
}
