import Type, { type Static } from 'typebox'
import { certificateFields } from '../runtime/platform/certificate.ts'
import {
  clickhouseKeys, commonConfig, defineConfig, pick, rootKeys, stateKeys,
} from '../runtime/platform/config.ts'
import { connectionFields } from '../runtime/platform/http-server.ts'

const HOUR_MS = 3_600_000

/** Plain HTTP only to this machine. */
const ISSUER = '^(https://.+|http://(localhost|127\\.0\\.0\\.1|\\[::1\\])(:\\d+)?(/.*)?)$'

/** The sign-in through an OpenID provider; without it the page accepts sign-in links only. */
const signInFields = {
  OIDC_ISSUER: Type.Optional(Type.String({
    needs: ['OIDC_CLIENT_ID', 'PAGE_URL'],
    pattern: ISSUER,
    description: 'Issuer of the OpenID provider that people sign in with; https, or http on ' +
      'loopback. Without it only links sign in.',
    examples: ['https://login.example.com'],
  })),
  OIDC_CLIENT_ID: Type.Optional(Type.String({
    minLength: 1, description: 'The client that the page is at the provider.',
  })),
  OIDC_CLIENT_SECRET: Type.Optional(Type.String({
    secret: true, description: 'Its secret (client_secret_basic); none for a public client.',
  })),
  PAGE_URL: Type.Optional(Type.String({
    pattern: '^https?://[^/]+$',
    description: 'Public address of the page. The provider redirects to its path ' +
      '/sign-in/callback.',
    examples: ['https://workspace.example.com'],
  })),
}

/** The settings of the workspace page. */
export const pageConfig = defineConfig({
  ...pick(commonConfig, [
    'MESSAGE_KEYS', 'MESSAGE_KEY_ACTIVE', ...stateKeys, ...clickhouseKeys,
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
  ...certificateFields,
  SESSION_IDLE_MS: Type.Integer({
    default: HOUR_MS,
    minimum: 100,
    description: 'A session ends after this time without a request.',
  }),
  SESSION_MS: Type.Integer({
    default: 12 * HOUR_MS, minimum: 100, description: 'A session ends after this time in any case.',
  }),
  ...signInFields,
  ...connectionFields,
  SUPPORT_URL: Type.String({
    default: '',
    pattern: '^((https://|mailto:).+)?$',
    description: 'Where customers have their balance topped up and ask for sign-in links, shown ' +
      'on the page.',
    examples: ['mailto:support@example.com'],
  }),
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
