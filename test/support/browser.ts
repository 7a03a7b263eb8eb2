import { existsSync } from 'node:fs'
import { chromium, type Browser } from 'playwright-core'
import { installPackages } from './system-tools.ts'

/** Where systems keep the browser; CHROMIUM names another place. */
const PLACES = [
  process.env.CHROMIUM ?? '', '/usr/bin/chromium', '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]

const find = () => PLACES.find(path => path !== '' && existsSync(path))

const ADVICE = 'There is no Chromium. Install it ("apt-get install chromium"), or say in ' +
  'CHROMIUM where it is.'

/**
 * A real Chromium. Where there is none and packages may be installed, Debian's is, and that is said
 * aloud. Throws with what to do where it can't be had.
 */
export async function openBrowser (): Promise<Browser> {
  if (find() === undefined) {
    const packages = ['chromium', 'fonts-dejavu-core']
    await installPackages({ packages, advice: ADVICE, say: console.log })
  }
  const executablePath = find()
  if (executablePath === undefined) throw new Error(ADVICE)
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return await chromium.launch({ executablePath, args })
}
