import type { StageName } from '../../topology.ts'
import type { Paint } from '../screen.ts'
import { effectOf } from './effects.ts'
import type { Pause } from './pauses.ts'

/** Since when, by whom and why, as far as anybody said. */
export function circumstancesOf ({ since, by, reason }: Omit<Pause, 'stage'>): string {
  return [
    since === '' ? '' : ` since ${since}`,
    by === '' ? '' : ` by ${by}`,
    reason === '' ? '' : `: ${reason}`,
  ].join('')
}

/** A paused stage in a line, with how it goes on. */
export function pauseLine (pause: Pause, paint: Paint): string {
  const { stage } = pause
  return `${paint('yellow', `${stage} is paused`)}${circumstancesOf(pause)}. ` +
    `It goes on by "npm run ops -- resume ${stage}".`
}

/** What came of `pause`, and what it means. */
export function pausedText (
  { changed, pause }: { readonly changed: boolean, readonly pause: Pause }, paint: Paint
): string {
  const { stage } = pause
  if (!changed) {
    return `${paint('yellow', `${stage} was paused already`)}${circumstancesOf(pause)}. ` +
      'Nothing was changed.'
  }
  return [
    `${paint('yellow', `${stage} is paused`)}. ${effectOf(stage).means}`,
    'All its processes follow within about two seconds, finish what they have in work, and stay ' +
      'ready.',
    'Messages wait in their topics, for 7 days at most; ' +
      `"npm run ops -- lag --stage ${stage}" shows how many.`,
    `It goes on by "npm run ops -- resume ${stage}".`,
  ].join('\n')
}

/** What came of `resume`. */
export function resumedText (stage: StageName, ended: Pause | undefined, paint: Paint): string {
  if (ended === undefined) return `${stage} was not paused. Nothing was changed.`
  return `${paint('green', `${stage} goes on`)}, within about three seconds. It was paused` +
    `${circumstancesOf(ended)}.`
}

/** What is asked before a pause that customers notice at once. */
export function questionOf (stage: StageName): string {
  return `${effectOf(stage).means}\nPause ${stage}? [y/N] `
}
