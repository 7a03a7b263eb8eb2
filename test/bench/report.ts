import type { CoreFigures } from './core.ts'
import type { CrowdFigures } from './scenarios/crowd.ts'
import type { EmailFigures } from './scenarios/email.ts'
import type { FairnessFigures } from './scenarios/fairness.ts'
import type { GrowthFigures } from './scenarios/growth.ts'
import type { PartnersFigures } from './scenarios/partners.ts'
import type { PeersFigures } from './scenarios/peers.ts'
import type { RecoveryFigures } from './scenarios/recovery.ts'
import type { ScalingFigures } from './scenarios/scaling.ts'
import type { SmallFigures } from './scenarios/small.ts'
import type { SoakFigures } from './scenarios/soak.ts'
import type { StateFigures } from './scenarios/state.ts'
import type { VerificationFigures } from './scenarios/verifications.ts'
import type { WebhookFigures } from './scenarios/webhooks.ts'

/** The figures of one run; those of scenarios that did not run are missing. */
export type Report = CoreFigures & {
  readonly growth?: GrowthFigures
  readonly crowd?: CrowdFigures
  readonly scaling?: ScalingFigures
  readonly webhooks?: WebhookFigures
  readonly email?: EmailFigures
  readonly verifications?: VerificationFigures
  readonly fairness?: FairnessFigures
  readonly recovery?: RecoveryFigures
  readonly small?: SmallFigures
  readonly partners?: PartnersFigures
  readonly soak?: SoakFigures
  readonly peers?: PeersFigures
  readonly state?: StateFigures
}
