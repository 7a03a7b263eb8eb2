import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, type ExpectStatic } from 'vitest'
import { newFolder } from '../../support/folder.ts'
import { root } from '../../support/sources.ts'

/** An npm that has installed two packages and goes on until there is a file with its exit code. */
const NPM = `#!/bin/sh
if [ "$1" = ci ]; then
  mkdir -p node_modules/a node_modules/@b/c
  touch node_modules/a/package.json node_modules/@b/c/package.json
  until [ -e code ]; do sleep 0.05; done
  exit "$(cat code)"
fi
mkdir node_modules/.bin
ln -s "$(command -v node)" node_modules/.bin/node
`
const PACKAGES = {
  '': {},
  'node_modules/a': {},
  'node_modules/@b/c': {},
  'node_modules/@b/c/node_modules/a': {},
  'node_modules/d': {},
  'node_modules/elsewhere': { os: ['plan9'] },
}

/** Starts deploy/setup in a new folder; `reported` resolves once it has printed its progress. */
function startSetup () {
  const folder = newFolder('setup-')
  mkdirSync(join(folder, 'bin'))
  writeFileSync(join(folder, 'bin/npm'), NPM, { mode: 0o755 })
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify({ packages: PACKAGES }))
  mkdirSync(join(folder, 'deploy'))
  cpSync(join(root, 'deploy/setup'), join(folder, 'deploy/setup'))
  const child = spawn('sh', ['deploy/setup'], {
    cwd: folder,
    env: { ...process.env, PATH: `${folder}/bin:${process.env['PATH']}` },
    stdio: ['ignore', 'pipe', 'inherit'],
    // Its processes are a group, as those of a command in a terminal are.
    detached: true,
  })
  let output = ''
  child.stdout.on('data', (data: Buffer) => { output += data.toString() })
  return {
    folder,
    group: -child.pid!,
    reported: async (expect: ExpectStatic) =>
      await expect.poll(() => output).toMatch(/packages after/),
    endNpm: (code: number) => writeFileSync(join(folder, 'code'), String(code)),
    ended: async () => {
      const [code] = await once(child, 'close') as [number | null]
      return { code, output }
    },
  }
}

const isRunning = (group: number) => {
  try {
    return process.kill(group, 0)
  } catch {
    return false
  }
}

describe.concurrent('the set-up', () => {
  it('prints how many packages are installed while npm works', async ({ expect }) => {
    const setup = startSetup()
    await setup.reported(expect)
    setup.endNpm(0)
    const { code, output } = await setup.ended()
    expect(output).toMatch(/^setup: 2 of about 3 packages after \d+ s$/m)
    expect([code, output]).toEqual([0, expect.stringMatching(/setup: done, Node v.*\n$/)])
    await expect.poll(() => isRunning(setup.group)).toBe(false)
  })

  it('fails with the code of npm, and is not done then', async ({ expect }) => {
    const setup = startSetup()
    setup.endNpm(7)
    expect((await setup.ended()).code).toBe(7)
    expect(existsSync(join(setup.folder, 'node_modules/.setup-stamp'))).toBe(false)
    await expect.poll(() => isRunning(setup.group)).toBe(false)
  })

  it('ends npm and everything else on Ctrl-C', async ({ expect }) => {
    const setup = startSetup()
    await setup.reported(expect)
    process.kill(setup.group, 'SIGINT')
    expect((await setup.ended()).code).toBe(130)
    await expect.poll(() => isRunning(setup.group)).toBe(false)
  })
})
