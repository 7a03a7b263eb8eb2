import { describe, expect, it } from 'vitest'
import type { QuoteBody } from '../../../schemas/api/quote.ts'
import { errorPage } from '../../../services/page/layout.ts'
import {
  confirmKeyView, keyState, keysView, secretView,
} from '../../../services/page/keys.ts'
import { pipelineView } from '../../../services/page/pipeline/page.ts'
import { settingsView } from '../../../services/page/settings.ts'
import { confirmSignInView, signInView } from '../../../services/page/sign-in.ts'
import { quoteView, uploadView } from '../../../services/page/upload.ts'
import { createPageDeps, visitLike } from '../../support/page/page-doubles.ts'

const visit = visitLike()
const key = {
  id: 'key_1',
  mode: 'live',
  scopes: ['jobs:read'],
  name: 'Nightly import',
  createdBy: 'operator',
  networks: ['192.0.2.0/24'],
  last4: 'Ab3d',
  createdAtMs: 1,
  expiresAtMs: 0,
  replacedBy: '',
  revokedAtMs: 0,
  lastUsedAtMs: 9,
  lastUsedFrom: '192.0.2.7',
} as const
const text = ({ html: source }: { readonly html: string }) =>
  source.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ')

describe('the page of API keys', () => {
  const addresses = new Map([['per_1', 'ann@example.com']])
  const shown = { addresses, nonce: 'm', nowMs: 10, notice: undefined }

  it('shows keys without their secrets', () => {
    const page = keysView(visit, { ...shown, keys: [key, { ...key, revokedAtMs: 5 }] }).html
    expect(page).toContain('aria-label="Roll the key that ends in Ab3d"')
    expect(page.match(/\/keys\/key_1\/revoke/g)).toHaveLength(1)
    expect(text(keysView(visit, { ...shown, keys: [] }))).toContain('No live key yet.')
    const creators = ['per_1', 'per_removed'].map(createdBy => ({ ...key, createdBy }))
    expect(text(keysView(visit, { ...shown, keys: creators })))
      .toMatch(/per_removed .* ann@example.com /)
    expect([keyState(key, 1), keyState({ ...key, expiresAtMs: 1 }, 1)])
      .toEqual(['active', 'expired'])
  })

  it('asks for confirmation, and shows a new secret', () => {
    expect(text(confirmKeyView(visit, { key, action: 'revoke', nonce: 'm' })))
      .toContain('be undone')
    expect(text(confirmKeyView(visit, { key, action: 'roll', nonce: 'm' }))).toContain('24 hours')
    const created = { title: 'T', secret: 's<', hint: 'h', section: 'keys' } as const
    expect(secretView(visit, created).html).toContain('>s&lt;</code>')
  })
})

describe('the pages besides jobs and money', () => {
  it('explain their purpose', async () => {
    expect(text(settingsView(visit, { hasSecret: false, nonce: 'm', notice: undefined })))
      .toContain('Create the first secret')
    expect(text(signInView({ notice: undefined, hasProvider: false })))
      .toContain('sign-in --org ORG_ID')
    expect(confirmSignInView().html).toContain('name="code" value=""')
    const error = { status: 500, title: 'T', message: 'M' }
    expect(text(errorPage(error, { requestId: 'req_1', isSignedIn: false })))
      .toContain('Number: req_1')
    const status = await createPageDeps().pipelineStatus()
    expect(text(pipelineView(visit.visitor.session, status))).toContain('set METRICS_TARGETS')
  })

  it('show the maximum price of a job, and how much money is missing', () => {
    const preflight = {
      totalRows: 5,
      invalidRows: 1,
      duplicateRows: 1,
      cacheHits: 1,
      freshChecks: 2,
      maxQuoteMicros: 6_000,
      quoteId: 'quot_1',
    }
    const quote: QuoteBody = {
      preflight,
      service: 's',
      checks: ['syntax'],
      limitations: ['range_only', 'later'],
      redeemable: false,
      expiresAt: '',
    }
    const enough = text(quoteView({ quote, availableMicros: 6_000, priceMicros: 2_000 }))
    expect(enough).toContain('At most $0.006')
    expect(enough).toContain('Start the job')
    expect(enough).toContain('the range of the number, not about the number itself; later.')
    const short = text(quoteView({ quote, availableMicros: 5_999, priceMicros: 2_000 }))
    expect(short).toContain('$0.000001 more is needed.')
    expect(short).not.toContain('Start the job')
    expect(text(uploadView(visit, []))).toContain('No service is set up')
  })
})
