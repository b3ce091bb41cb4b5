/** Opening a folder: by the system's dialog in the window, by its path in a browser. */
import { platform } from '../api/client.svelte';
import { openProject, startThread } from './projects.svelte';
import { defaultMode } from '../settings/settings.svelte';
import { readyProviders } from '../runtime/providers.svelte';
import type { ProjectId, Target } from '../api/gen';
import { threadsOf } from './projects.svelte';
import { view } from '../view.svelte';
import { words } from '../words/en';

export async function askForFolder(): Promise<void> {
  const pick = platform().pickFolder;
  if (!pick) {
    view.dialog = 'folder';
    return;
  }
  try {
    const path = await pick(words.side.openFolderTitle);
    if (path !== null) await openFolder(path);
  } catch (error) {
    view.fail(error);
  }
}

/** Opens it and goes to its newest thread, or to a new one. */
export async function openFolder(path: string): Promise<void> {
  const project = await openProject(path);
  const newest = threadsOf(project.id)[0];
  if (newest) view.show(newest.id);
  else await newThread(project.id);
}

/** Who would answer in a new thread when nobody was chosen before: the first that is ready. */
export function firstTarget(): Target | null {
  const ready = readyProviders();
  const first = ready.find((one) => one.id === view.starter) ?? ready.find((one) => one.id !== 'practice') ?? ready[0];
  if (!first) return null;
  return {
    provider: first.id,
    model: first.models.find((model) => model.default)?.id ?? null,
    effort: null,
    mode: defaultMode(),
  };
}

export async function newThread(projectId: ProjectId): Promise<void> {
  try {
    const before = threadsOf(projectId)[0]?.target;
    const first = firstTarget();
    // As last used in this project, but with the default for what may be done without asking (X11).
    const target = before && view.starter === null ? { ...before, mode: defaultMode() } : first;
    // One empty thread is enough.
    const empty = threadsOf(projectId).find((thread) => thread.lastSeq === 0 && thread.mark === 'idle');
    view.show(empty ? empty.id : (await startThread(projectId, target)).id);
  } catch (error) {
    view.fail(error);
  }
}
