import { words } from '../words/en';

/** A provider's own name for an effort, as people read it; none chosen is the provider's default. */
export function effortName(effort: string | null): string {
  if (effort === null || effort === '') return words.composer.effortDefault;
  return effort.charAt(0).toUpperCase() + effort.slice(1);
}
