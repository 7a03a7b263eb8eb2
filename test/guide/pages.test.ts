import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { faultOf, isException, NOT_RUN, RUN_PAGES } from '../support/guides/exceptions.ts'
import { blocksOf, mentionsOf } from '../support/guides/guide.ts'
import { ARCHAIC, pages, root } from '../support/sources.ts'

const read = (page: string) => readFileSync(join(root, page), 'utf8')
const FENCED = /^( *)```[^]*?^\1```$/gm
const GENERATED = /<!-- (\w+) -->\n[^]*?<!-- \/\1 -->/g

const MADE_AT_SETUP: readonly string[] = ['deploy/.env']

/** Anchors of a page as GitHub makes them. */
function anchorsOf (page: string): readonly string[] {
  const headings = read(page).replaceAll(FENCED, '').matchAll(/^#+ (.+)$/gm)
  return [...headings].map(([, text = '']) => text.toLowerCase()
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-'))
}

type Link = { readonly path: string, readonly anchor: string | undefined }

/** The links of a page to files of the repository and within itself. */
function linksOf (page: string): readonly Link[] {
  const links = read(page).replaceAll(FENCED, '').matchAll(/\]\(([^)\s]+)\)/g)
  return [...links].map(([, link = '']) => link).filter(link => !/^[a-z]+:/.test(link))
    .map(link => {
      const [path = '', anchor] = link.split('#')
      return { path: path === '' ? page : join(dirname(page), path), anchor }
    })
}

describe.each(pages)('%s', page => {
  it('links to files and headings that exist', () => {
    const broken = linksOf(page).filter(({ path, anchor }) => !existsSync(join(root, path)) ||
      (anchor !== undefined && !anchorsOf(path).includes(anchor)))
    expect(broken).toEqual([])
  })

  it('names files of the repository that exist', () => {
    const named = [...read(page).matchAll(/`((?:deploy|schemas|services|test)\/[\w./-]+)`/g)]
      .map(([, path = '']) => path)
    const missing = named.filter(path => !existsSync(join(root, path)))
    expect(missing.filter(path => !MADE_AT_SETUP.includes(path))).toEqual([])
  })

  it('avoids archaic words', () => {
    const lines = read(page).replaceAll(GENERATED, '').replaceAll(/`[^`\n]*`/g, '').split('\n')
    expect(lines.filter(line => ARCHAIC.test(line))).toEqual([])
  })
})

describe('code blocks of the pages', () => {
  const blocks = pages.flatMap(page => blocksOf(page, read(page)))

  it('are run by a test, or are exceptions with a reason', () => {
    expect(blocks.map(faultOf).filter(fault => fault !== undefined)).toEqual([])
  })

  it('include one for every exception, and one on every page that is run', () => {
    const stale = NOT_RUN.filter(({ page, begins }) =>
      !blocks.some(block => block.page === page && block.content.startsWith(begins)))
    expect(stale).toEqual([])
    const run = blocks.filter(block => !isException(block)).map(({ page }) => page)
    expect(RUN_PAGES.filter(page => !run.includes(page))).toEqual([])
  })

  it('call only scripts of package.json, as the text does', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
    const mentions = pages.flatMap(page => mentionsOf(page, read(page)))
    expect(mentions.filter(({ script }) => scripts[script] === undefined)).toEqual([])
    expect(mentions.length).toBeGreaterThan(60)
  })
})

describe('README.md', () => {
  it('has at most 200 lines', () => {
    expect(read('README.md').split('\n').length).toBeLessThanOrEqual(200)
  })

  it('leads to every page, at most two links away', () => {
    const linked = (page: string) => linksOf(page).map(({ path }) => path)
    const first = linked('README.md')
    const near = new Set([...first, ...first.filter(path => pages.includes(path)).flatMap(linked)])
    expect(pages.filter(page => page !== 'README.md' && !near.has(page))).toEqual([])
  })
})

describe('deploy/docs/architecture.md', () => {
  it('names files and folders relative to services/ or to the root', () => {
    const named = [...read('deploy/docs/architecture.md').matchAll(/`([\w-]+\/[\w./*-]*)`/g)]
      .map(([, path = '']) => path)
    const isInRoot = (path: string) => /^(deploy|schemas|services|test)\//.test(path)
    const missing = named.filter(path =>
      !existsSync(join(root, isInRoot(path) ? '' : 'services', path)))
    expect(missing).toEqual([])
    expect(named.length).toBeGreaterThan(100)
  })

  it('has a glossary of at most 40 terms', () => {
    const [, glossary = ''] = read('deploy/docs/architecture.md').split('## Glossary\n')
    expect(glossary.trim().split('\n').length - 2).toBeLessThanOrEqual(40)
  })
})

describe('a decision record', () => {
  const records = pages.filter(page => /\/adr\/\d/.test(page))

  it.each(records)('%s has a status, the four sections, and a line in the list', page => {
    const text = read(page)
    const sections = ['Context', 'Decision', 'Consequences', 'Alternatives that were rejected']
    expect(text).toMatch(/^# \d+\. .+\n\n\*\*Status:\*\* \w+/)
    expect([...text.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)).toEqual(sections)
    expect(linksOf('deploy/docs/adr/README.md').map(({ path }) => path)).toContain(page)
  })
})
