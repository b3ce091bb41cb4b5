/** The providers as last reported. */
import { call, readAlong } from '../api/client.svelte';
import type { Event, ModelView, ProviderId, ProviderView, Target } from '../api/gen';
import { fallbackName } from './family';

let current = $state.raw({ list: [] as ProviderView[], known: false });

export function setProviders(list: ProviderView[]): void {
  current = { list, known: true };
}

export function loadProviders(refresh = false): Promise<void> {
  const ask = () => call('provider/list', { refresh });
  return readAlong(ask, (answer) => setProviders(answer.providers), hearProviders);
}

export function hearProviders(batch: readonly Event[]): void {
  for (const { body } of batch) if (body.type === 'providers') setProviders(body.providers);
}

/** Whether the list was ever answered. */
export function providersKnown(): boolean {
  return current.known;
}

export function providers(): readonly ProviderView[] {
  return current.list;
}

export function provider(id: ProviderId): ProviderView | undefined {
  return current.list.find((one) => one.id === id);
}

export function providerName(id: ProviderId): string {
  return provider(id)?.name ?? fallbackName(id);
}

export function modelOf(target: Pick<Target, 'provider' | 'model'>): ModelView | undefined {
  const models = provider(target.provider)?.models ?? [];
  return target.model === null ? models.find((one) => one.default) : models.find((one) => one.id === target.model);
}

/** The name that people read for a model, by the provider's own name. */
export function modelName(id: ProviderId, model: string | null): string | null {
  if (model === null) return null;
  return provider(id)?.models.find((one) => one.id === model)?.name ?? model;
}

/** Those that can answer now. */
export function readyProviders(): ProviderView[] {
  return current.list.filter((one) => one.state === 'ready');
}
