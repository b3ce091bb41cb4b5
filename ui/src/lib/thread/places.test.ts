import { beforeEach, expect, test, vi } from 'vitest';
import { keepPlace, placeOf } from './places';

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal('localStorage', {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
  });
});

test('U5: each thread has its own place, and none for who is at the end', () => {
  keepPlace('a', { seq: 7, px: 12 });
  keepPlace('b', { seq: 9, px: 0 });
  expect(placeOf('a')).toEqual({ seq: 7, px: 12 });
  keepPlace('a', null);
  expect([placeOf('a'), placeOf('b')]).toEqual([undefined, { seq: 9, px: 0 }]);
});

test('U5: what stands there is bounded, and what is no list is no place', () => {
  for (let n = 0; n < 250; n++) keepPlace(`t${n}`, { seq: n, px: 0 });
  expect([placeOf('t49'), placeOf('t50')]).toEqual([undefined, { seq: 50, px: 0 }]);
  localStorage.setItem('changeover.places', '{"a":');
  expect(placeOf('t249')).toBeUndefined();
  localStorage.setItem('changeover.places', '7');
  expect(placeOf('t249')).toBeUndefined();
});
