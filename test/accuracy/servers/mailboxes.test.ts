import { expect, it } from 'vitest'
import { readServerFigures, serverFiguresText, worseFigures } from '../accuracy.ts'
import { MAILBOXES, measureMailboxes } from './mailboxes.ts'

it('finds the truth of mailboxes on mail servers as the saved figures say', async () => {
  expect(MAILBOXES.length).toBeGreaterThan(400)
  const measured = await measureMailboxes(console.log)
  expect(worseFigures(readServerFigures().parts, measured.rows)).toEqual([])
  expect(JSON.parse(serverFiguresText(measured))).toEqual(readServerFigures())
})
