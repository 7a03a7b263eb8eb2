import type { Figures } from './measure.ts'
import type { CrowdFigures } from './parts/crowd.ts'
import type { EmailFigures } from './parts/email.ts'
import type { FairnessFigures } from './parts/fairness.ts'
import type { GrowthFigures } from './parts/growth.ts'
import type { PeersFigures } from './parts/peers.ts'
import type { RecoveryFigures } from './parts/recovery.ts'
import type { ScalingFigures } from './parts/scaling.ts'
import type { SoakFigures } from './parts/soak.ts'
import type { WebhookFigures } from './parts/webhooks.ts'

/** Everything one run measured; parts that were not asked for are missing. */
export type Report = Figures & {
  readonly growth?: GrowthFigures
  readonly crowd?: CrowdFigures
  readonly scaling?: ScalingFigures
  readonly webhooks?: WebhookFigures
  readonly email?: EmailFigures
  readonly fairness?: FairnessFigures
  readonly recovery?: RecoveryFigures
  readonly soak?: SoakFigures
  readonly peers?: PeersFigures
}
