import Type from 'typebox'
import { createOrganizations } from '../accounts/organizations.ts'
import { createSignInCodes, SIGN_IN_LINK_MS, type SignedIn } from '../accounts/sessions.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { loadConfig } from '../runtime/platform/config.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import {
  type AdminCommand, type Context, organizationToChange, runAndPrint,
} from './command-line.ts'
import { withState } from './deps.ts'

/** Adds `sign-in`. */
export function addSignIn (program: AdminCommand, context: Context): void {
  program.command('sign-in').description('create a link to sign in to the workspace page')
    .records('sign_in_link.created')
    .option('--org <id>', 'sign in as this organization')
    .option('--operator', 'sign in as an operator of the pipeline')
    .example('--org org_1')
    .action(runAndPrint<SignInOptions>(context, async ({ env, options }) =>
      ({ data: await makeSignInLink(env, options) })))
}

const config = Type.Object({
  PAGE_URL: Type.String({
    default: 'http://127.0.0.1:8090',
    pattern: '^https?://[^/]+$',
    description: 'Public address of the workspace page.',
  }),
})

/** Who signs in with the link: the people of an organization, or an operator. */
type SignInOptions = { readonly org?: string, readonly operator?: string | true }

/**
 * Creates a link that signs in one browser, once, within ten minutes.
 * @throws UsageError unless exactly one of `org` and `operator` is set and the organization exists.
 */
async function makeSignInLink (env: Environment, options: SignInOptions) {
  if ((options.org === undefined) === (options.operator === undefined)) {
    throw new UsageError('Pass either --org <id> or --operator. The id of the demonstration ' +
      'organization is orgId in .local/stack.json.')
  }
  const { PAGE_URL } = loadConfig(config, env)
  return await withState(env, async redis => {
    const organizations = createOrganizations(redis)
    const subject: SignedIn = options.org === undefined
      ? { kind: 'operator' }
      : {
          kind: 'customer',
          orgId: await organizationToChange({ organizations }, { org: options.org }),
        }
    const code = await createSignInCodes(redis).create(subject)
    return {
      url: `${PAGE_URL}/sign-in/link#${code}`,
      expiresAt: new Date(Date.now() + SIGN_IN_LINK_MS).toISOString(),
      note: 'It signs in one browser, once. Share it as carefully as a password.',
    }
  })
}
