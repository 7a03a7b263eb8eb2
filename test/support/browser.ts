import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chromium, type Browser } from 'playwright-core'

/** Where systems keep the browser; CHROMIUM names another place. */
const PLACES = [
  process.env.CHROMIUM ?? '', '/usr/bin/chromium', '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]

const find = () => PLACES.find(path => path !== '' && existsSync(path))

/**
 * A real Chromium. Where there is none and packages may be installed, Debian's is, and that is said
 * aloud. Throws with what to do where it can't be had.
 */
export async function openBrowser (): Promise<Browser> {
  if (find() === undefined) install()
  const executablePath = find()
  if (executablePath === undefined) {
    throw new Error('There is no Chromium. Install it ("apt-get install chromium"), or say in ' +
      'CHROMIUM where it is.')
  }
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  return await chromium.launch({ executablePath, args })
}

function install (): void {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return
  console.log('browser: installing the package chromium with apt-get (about a minute, once)')
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args: readonly string[]) =>
    execFileSync('apt-get', ['-qq', ...args], { env, stdio: ['ignore', 'ignore', 'inherit'] })
  apt('update')
  apt('install', '-y', '--no-install-recommends', 'chromium', 'fonts-dejavu-core')
}
