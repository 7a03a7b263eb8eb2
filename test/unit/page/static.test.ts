import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { assets } from '../../../services/page/layout.ts'
import { newFolder } from '../../support/folder.ts'

/** Loads modules as browsers do, up to their first use of what only browsers have. */
const LOAD = `for (const path of process.argv.slice(1)) await import(path).catch(error => {
  if (!(error instanceof ReferenceError)) throw error
})`

it('modules of the pages import each other, and only what the other exports', () => {
  const folder = newFolder('static-')
  const modules = [...assets].filter(([name]) => name.endsWith('.js'))
  for (const [, { path, content }] of modules) {
    mkdirSync(join(folder, path, '..'), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  const paths = modules.map(([, { path }]) => join(folder, path))
  expect(paths.length).toBeGreaterThan(1)
  execFileSync(process.execPath, ['--input-type=module', '--eval', LOAD, ...paths])
})
