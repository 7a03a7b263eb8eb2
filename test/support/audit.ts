import { runAudit as runOnce } from '../../services/admin/audit/command.ts'

/** The audit as commands run it, but as patient with tenants that do not rest as a test may be. */
export const runAudit: typeof runOnce = (env, options) =>
  runOnce(env, { waitMs: 240_000, ...options })
