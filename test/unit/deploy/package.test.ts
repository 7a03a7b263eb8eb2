import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { importedPackages } from '../../../deploy/package.ts'
import { newFolder } from '../../support/folder.ts'

const folder = newFolder('package-')
afterAll(() => rmSync(folder, { recursive: true }))

it('a package depends on what its files import, and on no word of their texts', () => {
  mkdirSync(join(folder, 'inner'))
  writeFileSync(join(folder, 'a.js'), `
    import { Command } from 'commander'
    import { readFileSync } from 'node:fs'
    import { money } from './inner/b.js'
    const text = 'its number from ' +
      '1. May be left out'
    const other = await import("undici")`)
  writeFileSync(join(folder, 'inner/b.d.ts'), `
    export type { Server } from '@modelcontextprotocol/server/stdio'`)
  expect(importedPackages(folder)).toEqual(['@modelcontextprotocol/server', 'commander', 'undici'])
})
