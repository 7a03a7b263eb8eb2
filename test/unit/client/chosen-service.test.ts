import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { serviceFor } from '../../../services/client/chosen-service.ts'

const folder = mkdtempSync(join(tmpdir(), 'chosen-service-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = join(folder, 'in.csv')

const chosen = (text: string, column?: string) => {
  writeFileSync(file, text)
  return serviceFor(file, { column })
}

describe('the service nobody has named', () => {
  it.each<[string, string | undefined, string]>([
    ['\ufeffFirma;Telefon\r\n"A;\r\nB";030 901820\r\n', undefined, 'phone-validation'],
    ['name,address\nA,a@b.org\n', undefined, 'email-validation'],
    ['Mobil,E-Mail\n+12127365000,a@b.org\n', 'e-mail', 'email-validation'],
  ])('of %j is what its contacts are', async (text, column, service) => {
    expect(await chosen(text, column)).toBe(service)
  })

  it.each<[string, string]>([
    ['Mobil,E-Mail\n+12127365000,a@b.org\n', 'columns of both; --column NAME alone tells it, too.'],
    ['a,b\nx,y\n', 'no column that plausibly holds either.'],
  ])('of %j has to be named', async (text, why) => {
    await expect(chosen(text)).rejects.toThrow(why)
  })
})
