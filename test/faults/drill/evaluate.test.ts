import { expect, it } from 'vitest'
import { LOSSES } from './losses.ts'
import { announcement, drillTable, evaluate } from './run.ts'
import { ITEMS, type Item, type State } from './state.ts'

const stateWith = (changed: Partial<Record<Item, string>> = {}): State =>
  ({ ...Object.fromEntries(ITEMS.map(item => [item, 'there'])) as State, ...changed })

it('a drill distinguishes unexpected from announced losses', () => {
  const gone: readonly Item[] = ['audit']
  const after = stateWith({ audit: 'gone', balance: 'less' })
  const evaluated = evaluate({ gone }, stateWith(), after)
  expect(evaluated.announced).toEqual(['audit'])
  expect(evaluated.lost).toEqual(['balance: there before, less after'])
  expect(evaluated.kept).toEqual(ITEMS.filter(item => item !== 'audit' && item !== 'balance'))
  const [loss] = LOSSES
  expect(drillTable([{ loss: loss!, seconds: 7, ...evaluated }]).split('\n').slice(1)).toEqual([
    'journal  7        6 of 8  audit              1 LOST',
    'journal lost balance: there before, less after',
  ])
})

it('a drill announces what each store loses permanently', () => {
  for (const loss of LOSSES) expect(announcement(loss)).toContain(`for good: ${loss.announced}`)
})
