import { expect, it } from 'vitest'
import { choiceOf, filterOf, placeIn, stageOf } from '../../../../services/ops/dead/options.ts'
import { UsageError } from '../../../../services/lib/run-command.ts'
import { READING_STAGES } from '../../../../services/topology.ts'

it('knows the stages that read topics', () => {
  expect(READING_STAGES).toEqual([
    'feed', 'normalize', 'lookup', 'verify', 'settle', 'deliver', 'publish', 'ledger',
  ])
  expect(stageOf('verify')).toBe('verify')
  expect(() => stageOf('ingest')).toThrow('Only these stages have dead letters: feed, normalize,')
})

it('takes places as they are shown', () => {
  expect(placeIn('0:12')).toBe('0:12')
  for (const text of ['12', '0:', 'a:1', '0:1:2']) expect(() => placeIn(text)).toThrow(UsageError)
})

it('makes a choice of a named letter or of filters', () => {
  expect(filterOf('0:1', {})).toEqual({ place: '0:1' })
  expect(choiceOf('settle', '0:1', { limit: '50' })).toEqual({
    stage: 'settle', filter: { place: '0:1' }, again: false, yes: false, limit: 50,
  })
  const chosen = { job: 'j', tenant: 't', reason: 'r' }
  const options = { ...chosen, limit: '7', again: true, yes: true } as const
  expect(choiceOf('settle', undefined, options)).toEqual({
    stage: 'settle',
    filter: chosen,
    again: true,
    yes: true,
    limit: 7,
  })
})

it('asks for a clear choice', () => {
  const limit = '50'
  expect(() => choiceOf('settle', '0:1', { job: 'j', limit })).toThrow('not both')
  expect(() => choiceOf('settle', undefined, { limit })).toThrow('Name a letter')
  expect(choiceOf('settle', undefined, { yes: true, limit }).filter).toEqual({})
  for (const bad of ['0', '-1', 'x', '1.5']) {
    expect(() => choiceOf('settle', '0:1', { limit: bad })).toThrow('--limit is a whole number')
  }
})
