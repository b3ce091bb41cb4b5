/** Projects and the summaries of all threads: what the sidebar shows. */
import { call, readAlong } from '../api/client.svelte';
import type { Event, ProjectId, ProjectSummary, Target, ThreadId, ThreadSummary } from '../api/gen';

let projectList = $state.raw<readonly ProjectSummary[]>([]);
let threadMap = $state.raw<ReadonlyMap<ThreadId, ThreadSummary>>(new Map());
let known = $state(false);
let problem = $state.raw<string | null>(null);

export function loadProjects(): Promise<void> {
  const ask = () =>
    Promise.all([call('project/list', {}), call('thread/list', { projectId: null, archived: true })] as const);
  return readAlong(
    ask,
    ([{ projects }, { threads }]) => {
      projectList = projects;
      threadMap = new Map(threads.map((thread) => [thread.id, thread]));
      known = true;
    },
    hearProjects,
  );
}

export function hearProjects(batch: readonly Event[]): void {
  for (const { threadId, body } of batch) {
    if (body.type === 'thread') threadMap = new Map(threadMap).set(body.thread.id, body.thread);
    else if (body.type === 'threadDeleted' && threadId) drop(threadId);
    else if (body.type === 'projectRemoved') projectList = projectList.filter((one) => one.id !== body.projectId);
    else if (body.type === 'project')
      projectList = [body.project, ...projectList.filter((one) => one.id !== body.project.id)];
    else if (body.type === 'storage') problem = body.problem;
  }
}

function drop(id: ThreadId): void {
  const next = new Map(threadMap);
  next.delete(id);
  threadMap = next;
}

function put(thread: ThreadSummary): ThreadSummary {
  threadMap = new Map(threadMap).set(thread.id, thread);
  return thread;
}

export const projectsKnown = () => known;
export const projects = () => projectList;
export const project = (id: ProjectId) => projectList.find((one) => one.id === id);
export const threadSummary = (id: ThreadId) => threadMap.get(id);
export const storageProblem = () => problem;

function newestFirst(a: ThreadSummary, b: ThreadSummary): number {
  return Number(b.pinned) - Number(a.pinned) || b.updatedAt - a.updatedAt;
}

/** A project's threads, pinned first, then newest first. */
export function threadsOf(id: ProjectId, archived = false): ThreadSummary[] {
  return [...threadMap.values()]
    .filter((thread) => thread.projectId === id && thread.archived === archived)
    .sort(newestFirst);
}

/** All threads in the order of the sidebar. */
export function threadsInOrder(): ThreadSummary[] {
  return projectList.flatMap((one) => threadsOf(one.id));
}

export async function openProject(path: string): Promise<ProjectSummary> {
  const { project: opened } = await call('project/open', { path });
  projectList = [opened, ...projectList.filter((one) => one.id !== opened.id)];
  return opened;
}

export async function startThread(projectId: ProjectId, target: Target | null): Promise<ThreadSummary> {
  return put((await call('thread/start', { projectId, target })).thread);
}

export async function renameThread(threadId: ThreadId, title: string): Promise<void> {
  put((await call('thread/rename', { threadId, title })).thread);
}

/** With `stop`, a turn that runs is stopped for it; without, that is the error `running` (S4). */
export async function archiveThread(threadId: ThreadId, on: boolean, stop = false): Promise<void> {
  put((await call('thread/archive', { threadId, on, stop })).thread);
}

export async function pinThread(threadId: ThreadId, on: boolean): Promise<void> {
  put((await call('thread/pin', { threadId, on })).thread);
}

/** With `stop`, a turn that runs is stopped for it; without, that is the error `running` (S4). */
export async function deleteThread(threadId: ThreadId, stop = false): Promise<void> {
  await call('thread/delete', { threadId, stop });
  drop(threadId);
}

export async function restoreThread(threadId: ThreadId): Promise<void> {
  put((await call('thread/restore', { threadId })).thread);
}

/** Whether something in it was not read yet. */
export function isUnread(thread: ThreadSummary): boolean {
  return thread.lastSeq > thread.seenSeq;
}
