#!/bin/bash

cp /solution/stats.py /app/stats.py
sed -i "s/MESSAGE/$MESSAGE/" /app/stats.py
