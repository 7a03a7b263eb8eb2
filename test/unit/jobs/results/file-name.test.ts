import { describe, expect, it } from 'vitest'
import { resultDisposition } from '../../../../services/jobs/results/result-csv.ts'

const of = (upload?: string) => resultDisposition('job_1', { upload, end: '.csv' })

describe('the name of a result file', () => {
  it.each([
    ['list.csv (1 of 2)', 'list (1 of 2).verified.csv', 'list%20%281%20of%202%29.verified.csv'],
    ['list.csv', 'list.verified.csv', 'list.verified.csv'],
    ['Über uns.xlsx', 'Uber uns.verified.csv', '%C3%9Cber%20uns.verified.csv'],
    ['../../etc/passwd', '_.._etc_passwd.verified.csv', '_.._etc_passwd.verified.csv'],
    ['a";\r\nSet-Cookie: b', 'a_;__Set-Cookie_ b.verified.csv',
      'a_%3B__Set-Cookie_%20b.verified.csv'],
    ["it's (1) 100%.csv", "it's (1) 100_.verified.csv", 'it%27s%20%281%29%20100%25.verified.csv'],
    ['\u202egnp.csv', '_gnp.verified.csv', '_gnp.verified.csv'],
    ['名簿.csv', '__.verified.csv', '%E5%90%8D%E7%B0%BF.verified.csv'],
  ])('is that of the upload %j', (upload, ascii, encoded) => {
    expect(of(upload)).toBe(`attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`)
  })

  it.each([undefined, '', '.csv', ' .. '])('is that of the job for %j', upload => {
    expect(of(upload)).toBe('attachment; filename="job_1.csv"')
  })

  it('has at most 100 characters of the upload, and no half of one', () => {
    expect(of('😀'.repeat(200))).toContain(`''${'%F0%9F%98%80'.repeat(100)}.verified.csv`)
  })
})
