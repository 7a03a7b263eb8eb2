import Type, { type Static } from 'typebox'
import { defineConfig, pick, commonConfig, rootKeys } from '../../platform/config.ts'
import { connectionFields } from '../../platform/http-server.ts'

const HOUR_MS = 3_600_000

/** The settings of the workspace page. */
export const pageConfig = defineConfig({
  ...pick(commonConfig, [
    'MESSAGE_KEYS', 'MESSAGE_KEY_ACTIVE', 'REDIS_STATE_URL', 'CLICKHOUSE_URL',
    ...rootKeys.webhooks,
  ]),
  HOST: Type.String({ default: '127.0.0.1', minLength: 1, description: 'Address to listen on.' }),
  PORT_HTTP: Type.Integer({
    default: 8090,
    minimum: 0,
    maximum: 65_535,
    description: 'Port of the page; 0 selects a free port.',
  }),
  PORT_PAGE: Type.Optional(Type.Integer({
    minimum: 0,
    maximum: 65_535,
    description: 'Port of the page instead of PORT_HTTP, for a process that also hosts ingest.',
  })),
  API_URL: Type.String({
    default: 'http://127.0.0.1:8080/api/v1',
    pattern: '^https?://.+/api/v1$',
    description: 'Base URL of the REST interface, ending in /api/v1.',
  }),
  TRUSTED_PROXIES: Type.Array(Type.String(), {
    default: [], description: 'Addresses or networks whose X-Forwarded-Proto header is trusted.',
  }),
  TLS_CERT_FILE: Type.String({
    default: '', description: 'PEM file with the certificate and its chain; needs TLS_KEY_FILE.',
  }),
  TLS_KEY_FILE: Type.String({
    default: '', description: 'PEM file with the private key of TLS_CERT_FILE.',
  }),
  SESSION_IDLE_MS: Type.Integer({
    default: HOUR_MS,
    minimum: 100,
    description: 'A session ends after this time without a request.',
  }),
  SESSION_MS: Type.Integer({
    default: 12 * HOUR_MS, minimum: 100, description: 'A session ends after this time in any case.',
  }),
  ...connectionFields,
  METRICS_TARGETS: Type.Array(Type.String({ pattern: '^https?://.+' }), {
    default: [],
    description: 'Metrics endpoints of the services, for the drawing of the pipeline.',
    examples: ['http://127.0.0.1:9101/metrics'],
  }),
  METRICS_TARGETS_FILE: Type.String({
    default: '',
    description: 'JSON file with a list of more metrics endpoints, read at each poll.',
  }),
})

export type PageConfig = Static<typeof pageConfig>
