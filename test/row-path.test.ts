import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import { rowPathOf } from './row-path.ts'
import { root } from './support/sources.ts'

const TEXT = `export function createStage () {
  const poll = () => {
    return 1
  }
  return {
    decide: rows => rows.map(row => {
      return row
    }),
  }
}
export const unused = () => 2
`

/** Calls of functions, found by the text at which they start. */
function script (path: string, calls: readonly (readonly [name: string, at: string, n: number])[]) {
  const functions = calls.map(([functionName, at, count]) => {
    const startOffset = TEXT.indexOf(at)
    const [indent = ''] = /(?<=^|\n) *(?=[^\n]*$)/.exec(TEXT.slice(0, startOffset)) ?? []
    const endOffset = TEXT.indexOf(`\n${indent}}`, startOffset) + 2 + indent.length
    return { functionName, isBlockCoverage: false, ranges: [{ startOffset, endOffset, count }] }
  })
  return { url: pathToFileURL(join(root, path)).href, functions }
}

const calls = (decide: number, poll: number, callback = decide) => [
  ['createStage', 'function createStage', 0], ['poll', '() => {\n    return 1', poll],
  ['decide', 'rows => rows', decide], ['', 'row => {', callback],
] as const

it('the path of a row has the functions that run only for a job, each in its first stage', () => {
  const path = rowPathOf([
    {
      stage: 'normalize',
      job: [
        script('services/runtime/engine/process.ts', calls(1, 3)),
        script('services/normalize/stage.ts', calls(1, 0, 0)),
        script('node_modules/pino/pino.js', calls(1, 1)),
      ],
      idle: [script('services/runtime/engine/process.ts', calls(0, 9))],
    },
    { stage: 'lookup', job: [script('services/runtime/engine/process.ts', calls(2, 1))], idle: [] },
  ], () => TEXT)
  expect(path.map(({ stage, files }) => [stage, ...files.map(file =>
    [file.path, file.functions.join(' '), [...file.lines].join(' ')])])).toEqual([
    ['normalize',
      ['services/normalize/stage.ts', 'decide:6', '6'],
      ['services/runtime/engine/process.ts', 'decide:6', '6 7 8']],
    ['lookup', ['services/runtime/engine/process.ts', 'poll:2', '2 3 4']],
  ])
})
