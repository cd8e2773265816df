def mean(numbers):
    if not numbers:
        raise ValueError("MESSAGE")
    return sum(numbers) / len(numbers)
