import { describe, expect, it } from 'vitest'
import { failureView } from '../../../../../services/workspace/page/views/failure.ts'
import {
  askView, keysView, keyState, madeView,
} from '../../../../../services/workspace/page/views/keys.ts'
import { pipelineView } from '../../../../../services/workspace/page/views/pipeline.ts'
import { settingsView } from '../../../../../services/workspace/page/views/settings.ts'
import {
  confirmSignInView, signInView,
} from '../../../../../services/workspace/page/views/sign-in.ts'
import { quoteView, uploadView } from '../../../../../services/workspace/page/views/upload.ts'
import { createPageParts, visitLike } from '../../../../support/page-parts.ts'

const visit = visitLike()
const key = {
  id: 'key_1',
  mode: 'live',
  scopes: ['jobs:read'],
  last4: 'Ab3d',
  createdAtMs: 1,
  expiresAtMs: 0,
  revokedAtMs: 0,
  lastUsedAtMs: 0,
} as const
const text = ({ html: source }: { readonly html: string }) =>
  source.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ')

describe('keys', () => {
  const shown = { mark: 'm', nowMs: 10, notice: undefined }

  it('are shown without their secrets', () => {
    const page = keysView(visit, { ...shown, keys: [key, { ...key, revokedAtMs: 5 }] }).html
    expect(page).toContain('aria-label="Roll the key that ends in Ab3d"')
    expect(page.match(/\/keys\/key_1\/revoke/g)).toHaveLength(1)
    expect(text(keysView(visit, { ...shown, keys: [] }))).toContain('No live key yet.')
    expect([keyState(key, 1), keyState({ ...key, expiresAtMs: 1 }, 1)])
      .toEqual(['active', 'expired'])
  })

  it('are asked about, and shown once', () => {
    expect(text(askView(visit, { key, doing: 'revoke', mark: 'm' }))).toContain('be undone')
    expect(text(askView(visit, { key, doing: 'roll', mark: 'm' }))).toContain('24 hours')
    const made = { title: 'T', secret: 's<', hint: 'h', section: 'keys' } as const
    expect(madeView(visit, made).html).toContain('>s&lt;</code>')
  })
})

describe('the other pages', () => {
  it('say what they are for', async () => {
    expect(text(settingsView(visit, { hasSecret: false, mark: 'm', notice: undefined })))
      .toContain('Make the first secret')
    expect(text(signInView(undefined))).toContain('sign-in --org ORG_ID')
    expect(confirmSignInView().html).toContain('name="code" value=""')
    const fault = { status: 500, title: 'T', message: 'M' }
    expect(text(failureView(fault, { requestId: 'req_1', visitor: undefined })))
      .toContain('Number: req_1')
    const flows = await createPageParts().flows()
    expect(text(pipelineView(visit.visitor.session, flows))).toContain('set METRICS_TARGETS')
  })

  it('show what a job would cost, and what is missing', () => {
    const preflight = {
      totalRows: 5,
      invalidRows: 1,
      duplicateRows: 1,
      cacheHits: 1,
      freshChecks: 2,
      maxQuoteMicros: 6_000,
      quoteId: 'quot_1',
    }
    const quote = { preflight, service: 's', redeemable: false, expiresAt: '' } as const
    const enough = text(quoteView({ quote, availableMicros: 6_000, priceMicros: 2_000 }))
    expect(enough).toContain('At most $0.006')
    expect(enough).toContain('Start the job')
    const short = text(quoteView({ quote, availableMicros: 5_999, priceMicros: 2_000 }))
    expect(short).toContain('$0.000001 more is needed.')
    expect(short).not.toContain('Start the job')
    expect(text(uploadView(visit, []))).toContain('No service is set up')
  })
})
